// The head for multi-token prediction: one layer that attends, over the streams before a token and the
// token's embedding. Embedding and logits are the model's own.
#pragma once

#include <memory>

#include "model/arch/qwen4_exp/layer.h"
#include "model/drafter.h"

namespace kapitsa::qwen4 {

class DraftHead final : public Drafter {
public:
    /// What it shares with its model.
    struct Shared {
        Weight embedding, logits;
        Tensor rope_frequencies;
    };

    /// The tensors of `module` ("mtp"). `place` is the number of its first place in ModelMemory::attention.
    static Result<std::unique_ptr<Drafter>> load(Weights& weights, const std::string& module,
                                                 const Numbers& numbers, const Shared& shared,
                                                 std::uint32_t place);

    const std::vector<AttentionShape>& attention() const override { return shapes_; }
    Tensor forward(const Batch& batch, const Streams& before, Address streams, const ModelMemory& memory,
                   Recorder& r) const override;

private:
    Numbers numbers_;
    Shared shared_;
    Tensor token_norm_, stream_norm_;
    Weight of_token_, of_stream_;  // [width, width]
    Layer layer_;
    HyperConnection output_;
    std::vector<AttentionShape> shapes_;
};

}  // namespace kapitsa::qwen4

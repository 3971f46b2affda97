// The module for multi-token prediction of Nemotron-H: layers of its own pattern over the joined norms of a
// token's embedding and of the model's stream before it. Embedding and logits are the model's own.
#pragma once

#include <memory>
#include <string>

#include "model/arch/nemotron_h/layer.h"
#include "model/drafter.h"

namespace kapitsa::nemotron {

class DraftHead final : public Drafter {
public:
    /// The tensors of `module` ("mtp"), whose layers' memory begins at number `first_attention`.
    static Result<std::unique_ptr<Drafter>> load(Weights& weights, const std::string& module,
                                                 const Numbers& numbers, const Weight& embedding,
                                                 const Weight& logits, std::uint32_t first_attention);

    const std::vector<AttentionShape>& attention() const override { return memories_.attention; }
    Tensor forward(const Batch& batch, const Streams& before, Address streams, const ModelMemory& memory,
                   Recorder& r) const override;

private:
    float epsilon_ = 0;
    Weight embedding_, logits_;
    Tensor token_norm_, stream_norm_, final_norm_;
    Weight join_;  // [width, 2 * width]: the embedding's half first
    std::vector<Layer> layers_;
    Memories memories_;
};

}  // namespace kapitsa::nemotron

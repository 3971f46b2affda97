// The head for multi-token prediction that models are trained with: one decoder layer over the joined norms
// of a token's embedding and of the stream before it. Embedding and logits are the model's own. Source: the
// published tensors; checked by tests/golden.
#pragma once

#include <string>

#include "model/drafter.h"
#include "model/layers/attention.h"
#include "model/layers/feed_forward.h"

namespace kapitsa {

class MtpHead final : public Drafter {
public:
    struct Numbers {
        Attention::Numbers attention;  // norm_shift: of all norms of the head
        FeedForward::Numbers feed_forward;
        float epsilon = 0;
        Tensor rope_frequencies;
        Address rope_axes;  // see rope()
        Weight embedding, logits;
    };

    /// The tensors of `module` ("mtp"). `place` is the number of its layer in ModelMemory::attention.
    static Result<std::unique_ptr<Drafter>> load(Weights& weights, const std::string& module,
                                                 const Numbers& numbers, std::uint32_t place);

    const std::vector<AttentionShape>& attention() const override { return shapes_; }
    Tensor forward(const Batch& batch, const Streams& before, Address streams, const ModelMemory& memory,
                   Recorder& r) const override;

private:
    Numbers numbers_;
    Tensor token_norm_, stream_norm_, norm_, post_norm_, final_norm_;
    Weight join_;  // [width, 2 * width]: the embedding's half first
    Attention attention_;
    FeedForward feed_forward_;
    std::vector<AttentionShape> shapes_;
};

/// What the norms of `module` lack of being factors: 1 where they are stored as w of (1 + w). Told by their
/// signs: factors are positive, while a good part of the w of some norm is negative.
Result<float> guess_norm_shift(Weights& weights, const std::string& module, std::uint32_t width);

}  // namespace kapitsa

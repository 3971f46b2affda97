// The Mamba-2 layer: a short convolution, the state-space rule (kernels/mamba2.h), and a norm over groups of
// channels of the gated result.
#pragma once

#include <string>

#include "model/layers/short_conv.h"
#include "model/memory.h"
#include "model/recorder.h"
#include "model/weights.h"

namespace kapitsa {

class Mamba2 {
public:
    struct Numbers {
        std::uint32_t width = 0;  // of the stream
        std::uint32_t heads = 0, head_width = 0, groups = 0, state_width = 0, taps = 0;
        bool conv_biased = true;
        float least_step = 0, most_step = 0;  // the bounds of dt
        float epsilon = 0;                    // of the gated norm
        std::uint32_t inner() const { return heads * head_width; }
        std::uint32_t channels() const { return inner() + 2 * groups * state_width; }
    };

    /// The tensors of `module` ("backbone.layers.0.mixer"). `place` is the layer's number in
    /// ModelMemory::recurrent.
    static Result<Mamba2> load(Weights& weights, const std::string& module, const Numbers& numbers,
                               std::uint32_t place);

    /// Keeps of drafts: the convolution's inputs, and xbc and dt as the rule takes them.
    RecurrentShape shape() const;
    std::uint64_t bytes() const { return gate_.bytes() + xbc_.bytes() + step_.bytes() + out_.bytes(); }

    /// y += the layer of x. Both are [rows, width]. Chains move on in this pass; of drafts the inputs are
    /// kept.
    void add(Tensor x, Tensor y, const Batch& batch, const ModelMemory& memory, Recorder& r) const;
    /// Takes accepted paths over.
    void commit(const CommitBatch& batch, const ModelMemory& memory, Recorder& r) const;

private:
    Numbers numbers_;
    std::uint32_t place_ = 0;
    Weight gate_, xbc_, step_;  // rows of one matrix of the file
    Weight out_;
    ShortConvLayer conv_;
    Tensor rate_, step_bias_, skip_;  // [1, heads]; the rate is exp(A_log)
    Tensor norm_;                     // [1, inner]
};

}  // namespace kapitsa

// The causal convolution in front of a recurrent layer's rule, with the tail that sequences leave behind, and
// how the inputs of a draft's rows are kept. RecurrentMemory::kept[0] is the convolution's raw input.
#pragma once

#include <string>

#include "model/memory.h"
#include "model/recorder.h"
#include "model/weights.h"

namespace kapitsa {

class ShortConvLayer {
public:
    /// `module`.weight, and `module`.bias if the layer has one.
    static Result<ShortConvLayer> load(Weights& weights, const std::string& module, std::uint32_t channels,
                                       std::uint32_t taps, bool biased);

    /// silu of the convolution of u, [rows, channels]. Tails of chains move on.
    Tensor apply(Tensor u, const Batch& batch, const RecurrentMemory& memory, Recorder& r) const;
    /// Moves the tails of accepted paths on.
    void commit(const CommitBatch& batch, const RecurrentMemory& memory, Recorder& r) const;

private:
    Tensor weight_;  // [taps, channels]
    Tensor bias_;    // [1, channels], or nothing
};

/// The weight of a convolution over time, one for each channel, which is stored as [channels, 1, taps]
/// (Hugging Face) or [channels, taps, 1] (MLX); the two lie in memory alike. @return [taps, channels]
Result<Tensor> conv_weight(Weights& weights, const std::string& name, std::uint32_t channels,
                           std::uint32_t taps);

/// Copies the rows of drafts to memory.kept, a tensor a kind, in the order of RecurrentShape::kept.
void keep_drafts(std::initializer_list<Tensor> inputs, const Batch& batch, const RecurrentMemory& memory,
                 Recorder& r);

}  // namespace kapitsa

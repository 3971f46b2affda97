// The gated delta net: a short convolution, the delta rule (kernels/delta_net.h), and a gated norm.
#pragma once

#include <string>

#include "model/layers/short_conv.h"
#include "model/memory.h"
#include "model/recorder.h"
#include "model/weights.h"

namespace kapitsa {

struct DeltaNetShape {
    std::uint32_t key_heads = 0, value_heads = 0, key_width = 0, value_width = 0, taps = 0;
    std::uint32_t channels() const { return 2 * key_heads * key_width + value_heads * value_width; }
};

class DeltaNet {
public:
    struct Numbers {
        std::uint32_t width = 0;  // of the stream
        DeltaNetShape shape;
        float epsilon = 0;          // of the gated norm
        bool tiled = false;         // how value heads share key heads: see kernels/delta_net.h
        bool sigmoid_gate = false;  // the gate is a sigmoid, not silu
    };

    /// The tensors of `module` ("model.layers.0.linear_attn"). `place` is the layer's number in
    /// ModelMemory::recurrent.
    static Result<DeltaNet> load(Weights& weights, const std::string& module, const Numbers& numbers,
                                 std::uint32_t place);

    /// Keeps of drafts: the convolution's inputs, and qkv, g and beta as the delta rule takes them.
    RecurrentShape shape() const;
    std::uint64_t bytes() const { return qkv_.bytes() + z_.bytes() + a_.bytes() + b_.bytes() + out_.bytes(); }

    /// y += the layer of x. Both are [rows, width]. Chains move on in this pass; of drafts the inputs are
    /// kept.
    void add(Tensor x, Tensor y, const Batch& batch, const ModelMemory& memory, Recorder& r) const;
    /// Takes accepted paths over.
    void commit(const CommitBatch& batch, const ModelMemory& memory, Recorder& r) const;

private:
    Numbers numbers_;
    std::uint32_t place_ = 0;
    Weight qkv_, z_, a_, b_, out_;
    ShortConvLayer conv_;
    Tensor rate_, dt_bias_;  // [1, value_heads]; the rate is exp(A_log)
    Tensor norm_;            // [1, value_width]
};

}  // namespace kapitsa

// Softmax attention with grouped heads; with or without norms on queries and keys, rotation of part of a
// head, an output gate, a window, and sinks.
#pragma once

#include <string>

#include "model/layers/attention_heads.h"
#include "model/recorder.h"
#include "model/weights.h"

namespace kapitsa {

class Attention {
public:
    struct Numbers {
        std::uint32_t width = 0;  // of the stream
        std::uint32_t heads = 0, kv_heads = 0, head_width = 0;
        std::uint32_t rotary = 0;     // dimensions of a head that rotate; 0: no position but the order
        bool gated = true;            // an output gate, stored behind each head's query
        bool normed = true;           // norms on queries and keys
        float epsilon = 0;            // of the norms on queries and keys
        float norm_shift = 0;         // 1 where the checkpoint stores w of (1 + w)
        std::uint32_t window = 0;     // the most tokens that a row sees, itself among them; 0: all
        const char* sinks = nullptr;  // the tensor of a score without a value for each head, or none
    };

    /// What any such layer holds, whatever its rows look at.
    struct Parts {
        AttentionHeads heads;
        Weight q, k, v, o;  // q: a head's query, then its gate if there is one

        static Result<Parts> load(Weights& weights, const std::string& module, const Numbers& numbers);
        std::uint64_t bytes() const { return q.bytes() + k.bytes() + v.bytes() + o.bytes(); }
    };

    /// The tensors of `module` ("model.layers.3.self_attn"). `place` is the layer's number in
    /// ModelMemory::attention.
    static Result<Attention> load(Weights& weights, const std::string& module, const Numbers& numbers,
                                  std::uint32_t place);

    AttentionShape shape() const { return parts_.heads.shape(); }
    std::uint64_t bytes() const { return parts_.bytes(); }

    /// y += the layer of x. Both are [rows, width]. `rope` may be empty where nothing rotates.
    void add(Tensor x, Tensor y, const Rope& rope, const Batch& batch, const ModelMemory& memory,
             Recorder& r) const;

private:
    Parts parts_;
    std::uint32_t place_ = 0;
};

/// The frequencies theta^(-2i/rotary), in f32 as the references compute them. @return [1, rotary / 2]
Result<Tensor> rope_frequencies(Weights& weights, std::uint32_t rotary, double theta);
Rope rope(Tensor frequencies, const Batch& batch, Recorder& r);

}  // namespace kapitsa

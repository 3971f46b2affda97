// Softmax attention in which each row attends to tokens that an indexer chose for it:
// kernels/choose_tokens.h. It remembers two things: keys and values as any attention, and what the indexer
// needs.
#pragma once

#include <array>
#include <string>

#include "model/layers/attention.h"

namespace kapitsa {

class SparseAttention {
public:
    struct Numbers {
        Attention::Numbers attention;
        std::uint32_t index_heads = 0, index_width = 0;
        std::uint32_t ratio = 0;   // tokens of a block
        std::uint32_t budget = 0;  // blocks that a row attends to, at most
        std::uint32_t most() const { return budget * ratio + ratio - 1; }  // tokens
    };

    /// The tensors of `module` ("model.layers.3.self_attn"). `place` is the number of the first of its two
    /// places in ModelMemory::attention.
    static Result<SparseAttention> load(Weights& weights, const std::string& module, const Numbers& numbers,
                                        std::uint32_t place);

    std::array<AttentionShape, 2> shapes() const {
        return {{parts_.heads.shape(), {1, numbers_.index_width}}};
    }
    std::uint64_t bytes() const { return parts_.bytes() + index_.bytes(); }

    /// y += the layer of x. Both are [rows, width]. @param frequencies those of `rope`
    void add(Tensor x, Tensor y, const Rope& rope, Tensor frequencies, const Batch& batch,
             const ModelMemory& memory, Recorder& r) const;

private:
    /// The slots of the tokens that each row attends to.
    struct Chosen {
        Address slots;   // uint [rows, most]
        Address counts;  // uint [rows]
    };
    Chosen choose(Tensor index_qk, const Rope& rope, Tensor frequencies, const Batch& batch,
                  const AttentionMemory& mine, Recorder& r) const;

    Numbers numbers_;
    std::uint32_t place_ = 0;
    Attention::Parts parts_;
    Weight index_;  // queries, and the one key behind them
    Tensor index_q_norm_, index_k_norm_;
};

}  // namespace kapitsa

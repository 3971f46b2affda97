// One decoder layer: an optional table of n-grams, a mixer of tokens and a layer of experts, each of which
// reads from the residual streams and writes to them. Its tensors and its forward pass.
#pragma once

#include <optional>
#include <variant>

#include "model/arch/qwen4_exp/numbers.h"

namespace kapitsa::qwen4 {

/// What the layers of a model remember, in the order in which they are loaded. The first places are others'.
struct Memories {
    std::uint32_t attention_before = 0;
    std::vector<AttentionShape> attention = {};
    std::vector<RecurrentShape> recurrent = {};
};

struct LayerKind {
    bool attends = false;
    std::optional<std::uint32_t> ngram_module = {};  // its number among those with a table, if it has one
};

/// The angles of a step, and what they were made of.
struct Angles {
    Rope rope;
    Tensor frequencies;
};

class Layer {
public:
    /// The tensors of `module` ("model.layers.0").
    static Result<Layer> load(Weights& weights, const std::string& module, const Numbers& numbers,
                              const LayerKind& kind, Memories& memories);

    std::uint64_t bytes() const;

    /// The rows of its table that the step looks up (NgramLayer::pick); null where it has none.
    Address pick(const Batch& batch, const ModelMemory& memory, Recorder& r) const {
        return ngrams_ ? ngrams_->pick(batch, memory, r) : Address{};
    }
    /// x += the layer of x, [rows, streams * width]. `picked`: by `pick`.
    void add(Tensor x, Address picked, const Angles& angles, const Batch& batch, const ModelMemory& memory,
             Recorder& r) const;
    void commit(const CommitBatch& batch, const ModelMemory& memory, Recorder& r) const;

private:
    std::optional<NgramLayer> ngrams_;
    HyperConnection around_mixer_, around_experts_;
    std::variant<DeltaNet, SparseAttention> mixer_;
    Experts experts_;
};

}  // namespace kapitsa::qwen4

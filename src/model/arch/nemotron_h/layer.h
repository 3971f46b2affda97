// One layer of a Nemotron-H model or of its drafting module: a norm, and one mixer of one of four kinds.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "model/arch/nemotron_h/numbers.h"
#include "model/layers/attention.h"
#include "model/layers/mamba2.h"
#include "model/layers/squared_relu.h"
#include "model/layers/squared_relu_experts.h"

namespace kapitsa::nemotron {

/// What the layers remember, by their numbers among their kind.
struct Memories {
    std::vector<AttentionShape> attention;
    std::vector<RecurrentShape> recurrent;
    std::uint32_t first_attention = 0;  // the number of attention[0]: a drafter's stand behind its model's
};

class Layer {
public:
    /// The tensors of `module` ("backbone.layers.7"). `memories` gets what it remembers.
    static Result<Layer> load(Weights& weights, const std::string& module, const Numbers& numbers,
                              const LayerNumbers& own, Memories& memories);

    std::uint64_t bytes() const;
    /// x += the mixer of the norm of x.
    void add(Tensor x, const Batch& batch, const ModelMemory& memory, Recorder& r) const;
    void commit(const CommitBatch& batch, const ModelMemory& memory, Recorder& r) const;

private:
    Tensor norm_;
    float epsilon_ = 0;
    std::variant<Mamba2, Attention, SquaredReluLayer, SquaredReluExperts> mixer_;
};

}  // namespace kapitsa::nemotron

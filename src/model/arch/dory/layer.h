// One layer of a looped model on the unit sphere: a mixer of one of two kinds, and a step of the stream
// towards what it says.
#pragma once

#include <string>
#include <variant>

#include "model/arch/dory/numbers.h"
#include "model/layers/attention_heads.h"
#include "model/weights.h"

namespace kapitsa::looped {

/// Of every length.
constexpr float epsilon = 1e-6f;

/// Attention whose queries and keys are unit vectors once they are rotated, and whose gated sum is one.
class GatedAttention {
public:
    static Result<GatedAttention> load(Weights& weights, const std::string& module, const Numbers& numbers,
                                       const LayerNumbers& own);
    std::uint64_t bytes() const { return q_.bytes() + k_.bytes() + v_.bytes() + gate_.bytes() + o_.bytes(); }
    AttentionShape shape() const { return heads_.shape(); }
    Tensor compute(Tensor x, const Rope& rope, const Batch& batch, const AttentionMemory& memory,
                   Recorder& r) const;

private:
    AttentionHeads heads_;
    Weight q_, k_, v_, gate_, o_;
    Tensor gate_scale_;  // [1, heads * head width]
};

class UnitSwiGluLayer {
public:
    static Result<UnitSwiGluLayer> load(Weights& weights, const std::string& module, const Numbers& numbers);
    std::uint64_t bytes() const { return gate_.bytes() + up_.bytes() + down_.bytes(); }
    Tensor compute(Tensor x, Recorder& r) const;

private:
    Weight gate_, up_, down_;
    Tensor gate_scale_, up_scale_;  // [1, inner]
};

class Layer {
public:
    /// The tensors of `module` ("backbone.layers.7").
    static Result<Layer> load(Weights& weights, const std::string& module, const Numbers& numbers,
                              const LayerNumbers& own);

    std::uint64_t bytes() const;
    /// Steps x, [rows, width], in place. Layers that attend have keys and values in memory.attention[place].
    void step(Tensor x, std::uint32_t place, const Rope& rope, const Batch& batch, const ModelMemory& memory,
              Recorder& r) const;

private:
    std::variant<GatedAttention, UnitSwiGluLayer> mixer_;
    Tensor share_;  // [1, width] of the way to what the mixer says
};

/// The floats of a tensor, each through `change`, in f32 on the device: [1, columns].
template <typename Change>
Result<Tensor> changed_vector(Weights& weights, const std::string& name, std::uint32_t columns,
                              Change change) {
    auto values = TRY(weights.floats(name, {columns}));
    for (float& value : values) value = float(change(double(value)));
    return weights.upload(values, 1, columns);
}

}  // namespace kapitsa::looped

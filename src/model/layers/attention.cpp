#include "model/layers/attention.h"

#include <cmath>

#include "kernels/attend.h"
#include "model/layers/norm.h"

namespace kapitsa {

Result<Attention::Parts> Attention::Parts::load(Weights& weights, const std::string& module,
                                                const Numbers& n) {
    Parts parts;
    AttentionHeads& heads = parts.heads;
    heads = {.heads = n.heads,
             .kv_heads = n.kv_heads,
             .width = n.head_width,
             .rotary = n.rotary,
             .window = n.window,
             .query_width = n.gated ? 2 * n.head_width : n.head_width,
             .rotates_first = false,
             .epsilon = n.epsilon,
             .q_norm = {},
             .k_norm = {},
             .sinks = {}};
    parts.q = TRY(weights.matrix(module + ".q_proj", n.heads * heads.query_width, n.width));
    parts.k = TRY(weights.matrix(module + ".k_proj", n.kv_heads * n.head_width, n.width));
    parts.v = TRY(weights.matrix(module + ".v_proj", n.kv_heads * n.head_width, n.width));
    parts.o = TRY(weights.matrix(module + ".o_proj", n.width, n.heads * n.head_width));
    if (n.sinks) heads.sinks = TRY(shifted_norm(weights, module + n.sinks, n.heads, 0));
    if (!n.normed) return parts;
    heads.q_norm = TRY(shifted_norm(weights, module + ".q_norm.weight", n.head_width, n.norm_shift));
    heads.k_norm = TRY(shifted_norm(weights, module + ".k_norm.weight", n.head_width, n.norm_shift));
    return parts;
}

Result<Attention> Attention::load(Weights& weights, const std::string& module, const Numbers& n,
                                  std::uint32_t place) {
    Attention layer;
    layer.place_ = place;
    layer.parts_ = TRY(Parts::load(weights, module, n));
    return layer;
}

void Attention::add(Tensor x, Tensor y, const Rope& rope, const Batch& batch, const ModelMemory& memory,
                    Recorder& r) const {
    const auto scope = r.scope();
    const auto [q, k, v] = r.multiply_all({&parts_.q, &parts_.k, &parts_.v}, x);
    r.multiply_add(parts_.o, parts_.heads.attend(q, k, v, rope, batch, memory.attention[place_], r), y);
}

Result<Tensor> rope_frequencies(Weights& weights, std::uint32_t rotary, double theta) {
    std::vector<float> frequencies(rotary / 2);
    for (std::size_t i = 0; i < frequencies.size(); ++i)
        frequencies[i] = 1.0f / std::pow(float(theta), float(2 * i) / float(rotary));
    return weights.upload(frequencies, 1, rotary / 2);
}

Rope rope(Tensor frequencies, const Batch& batch, Recorder& r) {
    const std::uint32_t half = frequencies.columns;
    const Rope angles{r.place(batch.rows, half), r.place(batch.rows, half)};
    r.launch(rope_table_f32, {in<uint>(batch.positions), in(frequencies), out(angles.cosines),
                              out(angles.sines), batch.rows, half});
    return angles;
}

}  // namespace kapitsa

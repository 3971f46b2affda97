#include "model/layers/attention.h"

#include <cmath>

#include "kernels/attend.h"
#include "model/layers/norm.h"

namespace kapitsa {

Result<Attention> Attention::load(Weights& weights, const std::string& module, const Numbers& n,
                                  std::uint32_t place) {
    Attention layer;
    layer.numbers_ = n;
    layer.place_ = place;
    layer.q_ = TRY(weights.matrix(module + ".q_proj", n.heads * n.query_stride(), n.width));
    layer.k_ = TRY(weights.matrix(module + ".k_proj", n.kv_heads * n.head_width, n.width));
    layer.v_ = TRY(weights.matrix(module + ".v_proj", n.kv_heads * n.head_width, n.width));
    layer.o_ = TRY(weights.matrix(module + ".o_proj", n.width, n.heads * n.head_width));
    if (!n.normed) return layer;
    layer.q_norm_ = TRY(shifted_norm(weights, module + ".q_norm.weight", n.head_width, n.norm_shift));
    layer.k_norm_ = TRY(shifted_norm(weights, module + ".k_norm.weight", n.head_width, n.norm_shift));
    return layer;
}

void Attention::add(Tensor x, Tensor y, const Rope& rope, const Batch& batch, const ModelMemory& memory,
                    Recorder& r) const {
    const auto scope = r.scope();
    const Numbers& n = numbers_;
    const AttentionMemory& mine = memory.attention[place_];
    CHECK(n.rotary == rope.cosines.columns * 2);
    const auto [q, k, v] = r.multiply_all({&q_, &k_, &v_}, x);
    const Tensor rotated = r.place(batch.rows, n.heads * n.head_width);
    r.launch(attend_inputs_f32, {.q = in(q),
                                 .k = in(k),
                                 .v = in(v),
                                 .q_norm = in(q_norm_),
                                 .k_norm = in(k_norm_),
                                 .cosines = in(rope.cosines),
                                 .sines = in(rope.sines),
                                 .slots = in<uint>(batch.slots),
                                 .rotated = out(rotated),
                                 .keys = out<float>(mine.keys),
                                 .values = out<float>(mine.values),
                                 .rows = batch.rows,
                                 .heads = n.heads,
                                 .kv_heads = n.kv_heads,
                                 .width = n.head_width,
                                 .half = n.rotary / 2,
                                 .q_stride = n.query_stride(),
                                 .epsilon = n.epsilon});
    const Tensor o = r.place(batch.rows, n.heads * n.head_width);
    r.launch(attend_f32, {.q = in(rotated),
                          .gate = n.gated ? in(q) + n.head_width : nullptr,
                          .keys = in<float>(mine.keys),
                          .values = in<float>(mine.values),
                          .pages = in<uint>(batch.pages),
                          .parents = in<int>(batch.parents),
                          .segments = in<SegmentRows>(batch.all),
                          .o = out(o),
                          .count = batch.segments,
                          .heads = n.heads,
                          .kv_heads = n.kv_heads,
                          .width = n.head_width,
                          .gate_stride = n.query_stride(),
                          .tiles = batch.tiles,
                          .scale = 1.0f / std::sqrt(float(n.head_width))});
    r.multiply_add(o_, o, y);
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

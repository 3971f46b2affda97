#include "model/layers/attention_heads.h"

#include <cmath>

#include "kernels/attend.h"

namespace kapitsa {

Tensor AttentionHeads::prepare(Tensor q, Tensor k, Tensor v, const Rope& rope, const Batch& batch,
                               const AttentionMemory& memory, Recorder& r) const {
    CHECK(rotary == rope.cosines.columns * 2);
    const Tensor rotated = r.place(batch.rows, heads * width);
    r.launch(attend_inputs_f32, {.q = in(q),
                                 .k = in(k),
                                 .v = in(v),
                                 .q_norm = in(q_norm),
                                 .k_norm = in(k_norm),
                                 .cosines = in(rope.cosines),
                                 .sines = in(rope.sines),
                                 .slots = in<uint>(batch.slots),
                                 .rotated = out(rotated),
                                 .keys = out<float>(memory.keys),
                                 .values = out<float>(memory.values),
                                 .rows = batch.rows,
                                 .heads = heads,
                                 .kv_heads = kv_heads,
                                 .width = width,
                                 .half = rotary / 2,
                                 .q_stride = query_width,
                                 .q_norm_stride = q_norm.columns > width ? width : 0,
                                 .rotates_first = rotates_first,
                                 .epsilon = epsilon});
    return rotated;
}

Tensor AttentionHeads::attend(Tensor q, Tensor k, Tensor v, const Rope& rope, const Batch& batch,
                              const AttentionMemory& memory, Recorder& r) const {
    const Tensor o = r.place(batch.rows, heads * width);
    const auto scope = r.scope();
    const Tensor rotated = prepare(q, k, v, rope, batch, memory, r);
    r.launch(attend_f32, {.q = in(rotated),
                          .gate = gated() ? in(q) + width : nullptr,
                          .sinks = in(sinks),
                          .keys = in<float>(memory.keys),
                          .values = in<float>(memory.values),
                          .pages = in<uint>(batch.pages),
                          .parents = in<int>(batch.parents),
                          .segments = in<SegmentRows>(batch.all),
                          .o = out(o),
                          .count = batch.segments,
                          .heads = heads,
                          .kv_heads = kv_heads,
                          .width = width,
                          .gate_stride = query_width,
                          .tiles = batch.tiles,
                          .window = window,
                          .scale = 1.0f / std::sqrt(float(width))});
    return o;
}

}  // namespace kapitsa

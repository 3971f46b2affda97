#include "model/layers/sparse_attention.h"

#include <cmath>

#include "kernels/attend.h"
#include "kernels/sparse_attend.h"
#include "model/layers/norm.h"

namespace kapitsa {

Result<SparseAttention> SparseAttention::load(Weights& weights, const std::string& module, const Numbers& n,
                                              std::uint32_t place) {
    SparseAttention layer;
    const Attention::Numbers& a = n.attention;
    const std::string indexer = module + ".indexer";
    layer.numbers_ = n;
    layer.place_ = place;
    layer.q_ = TRY(weights.matrix(module + ".q_proj", a.heads * a.query_stride(), a.width));
    layer.k_ = TRY(weights.matrix(module + ".k_proj", a.kv_heads * a.head_width, a.width));
    layer.v_ = TRY(weights.matrix(module + ".v_proj", a.kv_heads * a.head_width, a.width));
    layer.o_ = TRY(weights.matrix(module + ".o_proj", a.width, a.heads * a.head_width));
    layer.q_norm_ = TRY(shifted_norm(weights, module + ".q_norm.weight", a.head_width, a.norm_shift));
    layer.k_norm_ = TRY(shifted_norm(weights, module + ".k_norm.weight", a.head_width, a.norm_shift));
    const std::uint32_t queries = n.index_heads * n.index_width;
    const Weight index = TRY(weights.matrix(indexer + ".index_qk_proj", queries + n.index_width, a.width));
    layer.index_q_ = index.slice(0, queries);
    layer.index_k_ = index.slice(queries, n.index_width);
    layer.index_q_norm_ =
        TRY(shifted_norm(weights, indexer + ".q_layernorm.weight", n.index_width, a.norm_shift));
    layer.index_k_norm_ =
        TRY(shifted_norm(weights, indexer + ".k_layernorm.weight", n.index_width, a.norm_shift));
    return layer;
}

SparseAttention::Chosen SparseAttention::choose(Tensor index_q, Tensor index_k, const Rope& rope,
                                                Tensor frequencies, const Batch& batch,
                                                const AttentionMemory& mine, Recorder& r) const {
    const Numbers& n = numbers_;
    const std::uint32_t half = n.attention.rotary / 2;
    const HistoryRows history{.positions = in<uint>(batch.positions),
                              .parents = in<int>(batch.parents),
                              .slots = in<uint>(batch.slots),
                              .pages = in<uint>(batch.pages),
                              .segments = in<SegmentRows>(batch.all),
                              .rows = batch.rows,
                              .count = batch.segments};
    const Tensor rotated = r.place(batch.rows, index_q.columns);
    r.launch(index_inputs_f32, {.q = in(index_q),
                                .k = in(index_k),
                                .q_norm = in(index_q_norm_),
                                .cosines = in(rope.cosines),
                                .sines = in(rope.sines),
                                .slots = in<uint>(batch.slots),
                                .rotated = out(rotated),
                                .keys = out<float>(mine.keys),
                                .rows = batch.rows,
                                .heads = n.index_heads,
                                .width = n.index_width,
                                .half = half,
                                .epsilon = n.attention.epsilon});
    r.launch(index_blocks_f32, {.history = history,
                                .keys = in<float>(mine.keys),
                                .k_norm = in(index_k_norm_),
                                .frequencies = in(frequencies),
                                .blocks = out<float>(mine.values),
                                .width = n.index_width,
                                .half = half,
                                .ratio = n.ratio,
                                .epsilon = n.attention.epsilon});
    const Chosen chosen{r.place(batch.rows, n.most()).address, r.place(batch.rows, 1).address};
    r.launch(choose_tokens_f32, {.history = history,
                                 .q = in(rotated),
                                 .blocks = in<float>(mine.values),
                                 .chosen = out<uint>(chosen.slots),
                                 .counts = out<uint>(chosen.counts),
                                 .heads = n.index_heads,
                                 .width = n.index_width,
                                 .ratio = n.ratio,
                                 .budget = n.budget});
    return chosen;
}

void SparseAttention::add(Tensor x, Tensor y, const Rope& rope, Tensor frequencies, const Batch& batch,
                          const ModelMemory& memory, Recorder& r) const {
    const auto scope = r.scope();
    const Attention::Numbers& n = numbers_.attention;
    const AttentionMemory& mine = memory.attention[place_];
    CHECK(n.rotary == rope.cosines.columns * 2 && n.gated && n.normed);
    const auto [q, k, v] = r.multiply_all({&q_, &k_, &v_}, x);
    const auto [index_q, index_k] = r.multiply_all({&index_q_, &index_k_}, x);
    const Chosen chosen = choose(index_q, index_k, rope, frequencies, batch, memory.attention[place_ + 1], r);
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
    r.launch(attend_chosen_f32, {.q = in(rotated),
                                 .gate = in(q) + n.head_width,
                                 .keys = in<float>(mine.keys),
                                 .values = in<float>(mine.values),
                                 .chosen = in<uint>(chosen.slots),
                                 .counts = in<uint>(chosen.counts),
                                 .o = out(o),
                                 .rows = batch.rows,
                                 .heads = n.heads,
                                 .kv_heads = n.kv_heads,
                                 .width = n.head_width,
                                 .gate_stride = n.query_stride(),
                                 .most = numbers_.most(),
                                 .scale = 1.0f / std::sqrt(float(n.head_width))});
    r.multiply_add(o_, o, y);
}

}  // namespace kapitsa

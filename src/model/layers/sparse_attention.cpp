#include "model/layers/sparse_attention.h"

#include <algorithm>
#include <cmath>

#include "kernels/choose_tokens.h"
#include "kernels/sparse_attend.h"
#include "model/layers/norm.h"

namespace kapitsa {
namespace {

// Parts of histories in which the best blocks are sought at a time.
constexpr std::uint32_t parts_of_row = 16, parts_of_step = 128;

}  // namespace

Result<SparseAttention> SparseAttention::load(Weights& weights, const std::string& module, const Numbers& n,
                                              std::uint32_t place) {
    SparseAttention layer;
    const float shift = n.attention.norm_shift;
    const std::string indexer = module + ".indexer";
    CHECK(n.attention.gated && n.attention.normed && n.attention.window == 0 && !n.attention.sinks);
    layer.numbers_ = n;
    layer.place_ = place;
    layer.parts_ = TRY(Attention::Parts::load(weights, module, n.attention));
    layer.index_ = TRY(
        weights.matrix(indexer + ".index_qk_proj", (n.index_heads + 1) * n.index_width, n.attention.width));
    layer.index_q_norm_ = TRY(shifted_norm(weights, indexer + ".q_layernorm.weight", n.index_width, shift));
    layer.index_k_norm_ = TRY(shifted_norm(weights, indexer + ".k_layernorm.weight", n.index_width, shift));
    return layer;
}

SparseAttention::Chosen SparseAttention::choose(Tensor index_qk, const Rope& rope, Tensor frequencies,
                                                const Batch& batch, const AttentionMemory& mine,
                                                Recorder& r) const {
    const Numbers& n = numbers_;
    const std::uint32_t half = n.attention.rotary / 2;
    const HistoryRows history{.positions = in<uint>(batch.positions),
                              .parents = in<int>(batch.parents),
                              .slots = in<uint>(batch.slots),
                              .pages = in<uint>(batch.pages),
                              .segments = in<SegmentRows>(batch.all),
                              .rows = batch.rows,
                              .count = batch.segments};
    const Tensor rotated = r.place(batch.rows, n.index_heads * n.index_width);
    r.launch(index_inputs_f32, {.qk = in(index_qk),
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
    // Few rows are sought for by many workers: as many parts as fill the room that many rows take anyway.
    const std::uint32_t parts = std::clamp(parts_of_step / batch.rows, 1u, parts_of_row);
    const std::uint32_t lists = std::max(batch.rows, parts_of_step);
    const Address scores = r.place(lists, n.budget).address, numbers = r.place(lists, n.budget).address;
    r.launch(best_blocks_f32, {.history = history,
                               .q = in(rotated),
                               .blocks = in<float>(mine.values),
                               .scores = out<float>(scores),
                               .numbers = out<uint>(numbers),
                               .heads = n.index_heads,
                               .width = n.index_width,
                               .ratio = n.ratio,
                               .budget = n.budget,
                               .parts = parts});
    const Chosen chosen{r.place(batch.rows, n.most()).address, r.place(batch.rows, 1).address};
    r.launch(choose_tokens_f32, {.history = history,
                                 .scores = in<float>(scores),
                                 .numbers = in<uint>(numbers),
                                 .chosen = out<uint>(chosen.slots),
                                 .counts = out<uint>(chosen.counts),
                                 .ratio = n.ratio,
                                 .budget = n.budget,
                                 .parts = parts});
    return chosen;
}

void SparseAttention::add(Tensor x, Tensor y, const Rope& rope, Tensor frequencies, const Batch& batch,
                          const ModelMemory& memory, Recorder& r) const {
    const auto scope = r.scope();
    const AttentionHeads& heads = parts_.heads;
    const AttentionMemory& mine = memory.attention[place_];
    const auto [q, k, v, index_qk] = r.multiply_all({&parts_.q, &parts_.k, &parts_.v, &index_}, x);
    const Chosen chosen = choose(index_qk, rope, frequencies, batch, memory.attention[place_ + 1], r);
    const Tensor rotated = heads.prepare(q, k, v, rope, batch, mine, r);
    const Tensor o = r.place(batch.rows, heads.heads * heads.width);
    r.launch(attend_chosen_f32, {.q = in(rotated),
                                 .gate = in(q) + heads.width,
                                 .keys = in<float>(mine.keys),
                                 .values = in<float>(mine.values),
                                 .chosen = in<uint>(chosen.slots),
                                 .counts = in<uint>(chosen.counts),
                                 .o = out(o),
                                 .rows = batch.rows,
                                 .heads = heads.heads,
                                 .kv_heads = heads.kv_heads,
                                 .width = heads.width,
                                 .gate_stride = heads.query_width,
                                 .most = numbers_.most(),
                                 .scale = 1.0f / std::sqrt(float(heads.width))});
    r.multiply_add(parts_.o, o, y);
}

}  // namespace kapitsa

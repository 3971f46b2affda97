// The native twin of kernels/attend.h.
//
// A unit is a tile of rows and one key/value head: all query heads of the group, over all its keys, in blocks
// of 16 (a page) with a running maximum. Keys lie transposed in their page, so that 16 scores are one vector
// operation a dimension. What a query sums, and in which order, depends on its own history alone.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/attend.cpp"
#include "hwy/foreach_target.h"  // compiles this file once an instruction set
// (after it)
#include <cmath>

#include "backend/cpu/native.h"
#include "backend/cpu/vectors-inl.h"
#include "kernels/attend.h"

HWY_BEFORE_NAMESPACE();
namespace kapitsa::cpu::HWY_NAMESPACE {

constexpr std::size_t page = attend_page_tokens;
constexpr float lowest = -1e30f;

/// y = x / rms(x) * weight; y may be x.
HWY_INLINE void norm_head(const float* x, const float* weight, std::size_t width, float epsilon, float* y) {
    const F d;
    const auto scale = hn::Set(d, 1.0f / std::sqrt(dot(x, x, width) / float(width) + epsilon));
    for (std::size_t i = 0; i < width; i += hn::Lanes(d)) {
        const std::size_t left = width - i;
        const auto v = hn::Mul(hn::Mul(load_first(d, x + i, left), scale), load_first(d, weight + i, left));
        store_first(v, d, y + i, left);
    }
}

/// A head of a query or key as attention takes it: normed where there is a weight, and rotated.
HWY_INLINE void norm_and_rotate(const AttendInputs& args, std::size_t row, const float* x,
                                const float* weight, float* y) {
    const std::size_t width = args.width, half = args.half;
    const float *cosines = args.cosines + row * half, *sines = args.sines + row * half;
    if (weight && !args.rotates_first)
        norm_head(x, weight, width, args.epsilon, y);
    else
        std::memcpy(y, x, width * sizeof(float));
    for (std::size_t i = 0; i < half; ++i) {
        const float a = y[i], b = y[i + half];
        y[i] = a * cosines[i] - b * sines[i];
        y[i + half] = b * cosines[i] + a * sines[i];
    }
    if (weight && args.rotates_first) norm_head(y, weight, width, args.epsilon, y);
}

void attend_inputs_rows(const AttendInputs& args, std::uint32_t first, std::uint32_t last, Scratch& scratch) {
    const std::size_t width = args.width;
    float* key = scratch.floats(width);
    for (std::size_t row = first; row < last; ++row) {
        for (std::size_t head = 0; head < args.heads; ++head) {
            const float* norm = args.q_norm ? args.q_norm + head * args.q_norm_stride : nullptr;
            norm_and_rotate(args, row, args.q + (row * args.heads + head) * args.q_stride, norm,
                            args.rotated + (row * args.heads + head) * width);
        }
        const std::size_t of_page = args.slots[row] / page, place = args.slots[row] % page;
        for (std::size_t head = 0; head < args.kv_heads; ++head) {
            const std::size_t from = (row * args.kv_heads + head) * width;
            const std::size_t to = (of_page * args.kv_heads + head) * width * page;
            norm_and_rotate(args, row, args.k + from, args.k_norm, key);
            for (std::size_t i = 0; i < width; ++i) args.keys[to + i * page + place] = key[i];
            std::memcpy(args.values + to + place * width, args.v + from, width * sizeof(float));
        }
    }
}

/// What one query has seen so far.
struct Query {
    const float* q;
    float* sum;                   // [width], not yet divided by `weight`
    float most, weight;           // the largest score, and the sum of exp(score - most)
    std::size_t oldest, history;  // it sees the keys [oldest, history) of its own history

    bool sees(std::size_t block) const { return history > block * page && oldest < (block + 1) * page; }
};

/// One block of keys and values, for one to four queries that see some of it.
template <std::size_t queries>
HWY_INLINE void attend_block(Query* const (&query)[queries], const float* keys, const float* values,
                             std::size_t block, std::size_t width, float scale) {
    const F d;
    const std::size_t lanes = hn::Lanes(d);
    constexpr std::size_t vectors = page / HWY_MIN(page, hn::MaxLanes(F()));
    FloatVec scores[queries][vectors];
    for (auto& s : scores)
        for (auto& v : s) v = hn::Zero(d);
    for (std::size_t i = 0; i < width; ++i) {
        for (std::size_t j = 0; j < vectors; ++j) {
            const auto k = hn::LoadU(d, keys + i * page + j * lanes);
            for (std::size_t a = 0; a < queries; ++a)
                scores[a][j] = hn::MulAdd(hn::Set(d, query[a]->q[i]), k, scores[a][j]);
        }
    }

    HWY_ALIGN float weights[queries][page];
    std::size_t seen_most = 0, unseen_least = page;
    for (std::size_t a = 0; a < queries; ++a) {
        Query& me = *query[a];
        const std::size_t seen = HWY_MIN(me.history - block * page, page);
        const std::size_t unseen = me.oldest > block * page ? me.oldest - block * page : 0;
        seen_most = HWY_MAX(seen_most, seen);
        unseen_least = HWY_MIN(unseen_least, unseen);
        const auto visible_of = [&](std::size_t j) {
            const auto place = hn::Iota(d, float(j * lanes));
            return hn::And(hn::Lt(place, hn::Set(d, float(seen))), hn::Ge(place, hn::Set(d, float(unseen))));
        };
        auto most = hn::Set(d, me.most);
        for (std::size_t j = 0; j < vectors; ++j) {
            scores[a][j] =
                hn::IfThenElse(visible_of(j), hn::Mul(scores[a][j], hn::Set(d, scale)), hn::Set(d, lowest));
            most = hn::Max(most, scores[a][j]);
        }
        const float now_most = hn::GetLane(hn::MaxOfLanes(d, most));
        auto total = hn::Zero(d);
        for (std::size_t j = 0; j < vectors; ++j) {
            const auto w =
                hn::IfThenElseZero(visible_of(j), hn::Exp(d, hn::Sub(scores[a][j], hn::Set(d, now_most))));
            hn::Store(w, d, weights[a] + j * lanes);
            total = hn::Add(total, w);
        }
        const float fade = now_most == me.most ? 1.0f : std::exp(me.most - now_most);
        me.weight = me.weight * fade + sum(total);
        me.most = now_most;
        if (fade != 1.0f)
            for (std::size_t i = 0; i < width; ++i) me.sum[i] *= fade;
    }

    for (std::size_t i = 0; i < width; i += lanes) {
        const std::size_t left = width - i;
        FloatVec sums[queries];
        for (std::size_t a = 0; a < queries; ++a) sums[a] = load_first(d, query[a]->sum + i, left);
        for (std::size_t t = unseen_least; t < seen_most; ++t) {
            const auto v = load_first(d, values + t * width + i, left);
            for (std::size_t a = 0; a < queries; ++a)
                sums[a] = hn::MulAdd(hn::Set(d, weights[a][t]), v, sums[a]);
        }
        for (std::size_t a = 0; a < queries; ++a) store_first(sums[a], d, query[a]->sum + i, left);
    }
}

/// One block for all queries that see it.
HWY_INLINE void attend_block_all(Query* all, std::size_t count, const float* keys, const float* values,
                                 std::size_t block, std::size_t width, float scale) {
    Query* these[4];
    std::size_t held = 0;
    for (std::size_t a = 0; a < count; ++a) {
        if (!all[a].sees(block)) continue;
        these[held++] = &all[a];
        if (held < 4) continue;
        attend_block<4>(these, keys, values, block, width, scale);
        held = 0;
    }
    for (std::size_t a = 0; a < held; ++a) {
        Query* one[1] = {these[a]};
        attend_block<1>(one, keys, values, block, width, scale);
    }
}

/// Brings a draft row's own history into one block: what is committed, then its ancestors.
struct DraftHistory {
    const Attend& args;
    const SegmentRows& segment;
    std::uint32_t path[64];  // ancestors, root first, the row itself last
    std::size_t depth = 0;

    DraftHistory(const Attend& a, const SegmentRows& s, std::size_t row) : args(a), segment(s) {
        if (s.commit) return;  // a chain's keys lie where they are looked for
        for (int at = int(row); at != no_row; at = a.parents[at]) path[depth++] = std::uint32_t(at);
        for (std::size_t i = 0; i < depth / 2; ++i) std::swap(path[i], path[depth - 1 - i]);
    }

    void gather(std::size_t block, std::size_t kv_head, float* keys, float* values) const {
        const std::size_t width = args.width, history = segment.committed + depth;
        for (std::size_t t = 0; t < HWY_MIN(page, history - block * page); ++t) {
            const std::size_t position = block * page + t;
            const std::size_t slot =
                position < segment.committed
                    ? position
                    : segment.committed + path[position - segment.committed] - segment.first_row;
            const std::size_t from =
                (std::size_t(args.pages[segment.first_page + slot / page]) * args.kv_heads + kv_head) *
                width * page;
            for (std::size_t i = 0; i < width; ++i)
                keys[i * page + t] = args.keys[from + i * page + slot % page];
            std::memcpy(values + t * width, args.values + from + slot % page * width, width * sizeof(float));
        }
    }
};

/// Rows [begin, end) of a segment, with one key/value head.
void attend_tile(const Attend& args, const SegmentRows& segment, std::size_t begin, std::size_t end,
                 std::size_t kv_head, float* room) {
    const std::size_t width = args.width, group = args.heads / args.kv_heads;
    float *gathered_keys = room, *gathered_values = room + page * width, *sums = room + 2 * page * width;
    Query queries[64];
    // A draft row has a history of its own and goes alone; the rows of a chain share their blocks.
    const std::size_t most_rows = segment.commit ? HWY_MAX(std::size_t(1), 64 / group) : 1;
    for (std::size_t from = begin; from < end; from += most_rows) {
        const std::size_t to = HWY_MIN(from + most_rows, end), row = segment.first_row + from;
        std::size_t count = 0, longest = 0, oldest = ~std::size_t{0};
        const DraftHistory draft(args, segment, segment.commit ? segment.first_row : row);
        for (std::size_t i = from; i < to; ++i) {
            const std::size_t seen = args.whole ? segment.rows : i + 1;
            const std::size_t history = segment.committed + (segment.commit ? seen : draft.depth);
            const std::size_t before = args.window && history > args.window ? history - args.window : 0;
            longest = HWY_MAX(longest, history);
            oldest = HWY_MIN(oldest, before);
            for (std::size_t h = 0; h < group; ++h, ++count) {
                const std::size_t head = kv_head * group + h;
                queries[count] = {.q = args.q + ((segment.first_row + i) * args.heads + head) * width,
                                  .sum = sums + count * width,
                                  .most = args.sinks ? args.sinks[head] : lowest,
                                  .weight = args.sinks ? 1.0f : 0.0f,
                                  .oldest = before,
                                  .history = history};
                std::memset(queries[count].sum, 0, width * sizeof(float));
            }
        }
        for (std::size_t block = oldest / page; block * page < longest; ++block) {
            const float *keys = gathered_keys, *values = gathered_values;
            if (segment.commit || (block + 1) * page <= segment.committed) {
                const std::size_t at =
                    (std::size_t(args.pages[segment.first_page + block]) * args.kv_heads + kv_head) * width *
                    page;
                keys = args.keys + at;
                values = args.values + at;
            } else {
                draft.gather(block, kv_head, gathered_keys, gathered_values);
            }
            attend_block_all(queries, count, keys, values, block, width, args.scale);
        }
        const F d;
        for (std::size_t a = 0; a < count; ++a) {
            const std::size_t head = (row + a / group) * args.heads + kv_head * group + a % group;
            const auto share = hn::Set(d, 1.0f / queries[a].weight);
            for (std::size_t i = 0; i < width; i += hn::Lanes(d)) {
                const std::size_t left = width - i;
                auto o = hn::Mul(load_first(d, queries[a].sum + i, left), share);
                if (args.gate)
                    o = hn::Mul(o, sigmoid(load_first(d, args.gate + head * args.gate_stride + i, left)));
                store_first(o, d, args.o + head * width + i, left);
            }
        }
    }
}

/// A unit is a tile of some segment's rows, with one key/value head.
void attend_units(const Attend& args, std::uint32_t first, std::uint32_t last, Scratch& scratch) {
    float* room = scratch.floats((2 * page + 64) * args.width);
    std::size_t unit = 0;
    for (uint s = 0; s < args.count && unit < last; ++s) {
        const SegmentRows& segment = args.segments[s];
        for (std::size_t begin = 0; begin < segment.rows; begin += attend_tile_rows) {
            const std::size_t end = HWY_MIN(begin + attend_tile_rows, std::size_t(segment.rows));
            for (std::size_t kv_head = 0; kv_head < args.kv_heads; ++kv_head, ++unit)
                if (unit >= first && unit < last) attend_tile(args, segment, begin, end, kv_head, room);
        }
    }
}

}  // namespace kapitsa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kapitsa::cpu {

HWY_EXPORT(attend_inputs_rows);
HWY_EXPORT(attend_units);

namespace {

std::uint32_t rope_rows(const RopeTable& args) { return args.rows; }
void run_rope(const RopeTable& args, std::uint32_t first, std::uint32_t last, Scratch&) {
    for (std::size_t row = first; row < last; ++row) {
        for (std::size_t i = 0; i < args.half; ++i) {
            const std::size_t axis = args.axes ? args.axes[i] : 0;
            const float angle = float(args.positions[row * position_axes + axis]) * args.frequencies[i];
            args.cosines[row * args.half + i] = std::cos(angle);
            args.sines[row * args.half + i] = std::sin(angle);
        }
    }
}

std::uint32_t input_rows(const AttendInputs& args) { return args.rows; }
void run_inputs(const AttendInputs& args, std::uint32_t first, std::uint32_t last, Scratch& scratch) {
    HWY_DYNAMIC_DISPATCH(attend_inputs_rows)(args, first, last, scratch);
}

std::uint32_t tiles_of(const Attend& args) { return args.tiles * args.kv_heads; }
void run_attend(const Attend& args, std::uint32_t first, std::uint32_t last, Scratch& scratch) {
    HWY_DYNAMIC_DISPATCH(attend_units)(args, first, last, scratch);
}

/// One unit: a path's moves go towards the front, in order.
std::uint32_t one(const MoveTokens&) { return 1; }
void run_move(const MoveTokens& args, std::uint32_t, std::uint32_t, Scratch&) {
    constexpr std::size_t page = attend_page_tokens;
    const std::size_t width = args.width;
    for (std::size_t m = 0; m < args.count; ++m) {
        for (std::size_t head = 0; head < args.kv_heads; ++head) {
            const auto base = [&](std::size_t slot) {
                return (slot / page * args.kv_heads + head) * width * page;
            };
            const std::size_t from = args.from[m], to = args.to[m];
            for (std::size_t i = 0; i < width; ++i)
                args.keys[base(to) + i * page + to % page] = args.keys[base(from) + i * page + from % page];
            std::memmove(args.values + base(to) + to % page * width,
                         args.values + base(from) + from % page * width, width * sizeof(float));
        }
    }
}

constexpr Native natives[] = {
    native<rope_rows, run_rope>(rope_table_f32),
    native<input_rows, run_inputs>(attend_inputs_f32),
    native<tiles_of, run_attend>(attend_f32),
    native<one, run_move>(move_tokens_f32),
};

}  // namespace

std::span<const Native> attend_natives() { return natives; }

}  // namespace kapitsa::cpu
#endif

// The native twin of kernels/sparse_attend.h.
//
// What a row chooses and sums, and in which order, depends on its own history alone: scores are taken one
// block after the other, and the chosen tokens oldest first, all scores before all sums.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/sparse_attend.cpp"
#include "hwy/foreach_target.h"  // compiles this file once an instruction set
// (after it)
#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/cpu/native.h"
#include "backend/cpu/vectors-inl.h"
#include "kernels/attend.h"
#include "kernels/sparse_attend.h"

HWY_BEFORE_NAMESPACE();
namespace kapitsa::cpu::HWY_NAMESPACE {

constexpr std::size_t page = attend_page_tokens;

/// y = x / rms(x) * weight.
HWY_INLINE void norm(const float* x, const float* weight, std::size_t width, float epsilon, float* y) {
    const F d;
    const auto scale = hn::Set(d, 1.0f / std::sqrt(dot(x, x, width) / float(width) + epsilon));
    for (std::size_t i = 0; i < width; i += hn::Lanes(d)) {
        const auto v = hn::Mul(load_first(d, x + i, width - i), scale);
        store_first(hn::Mul(v, load_first(d, weight + i, width - i)), d, y + i, width - i);
    }
}

HWY_INLINE void rotate(float& a, float& b, float cosine, float sine) {
    const float x = a, y = b;
    a = x * cosine - y * sine;
    b = y * cosine + x * sine;
}

void index_inputs_rows(const IndexInputs& args, std::uint32_t first, std::uint32_t last) {
    const std::size_t width = args.width, half = args.half;
    for (std::size_t row = first; row < last; ++row) {
        const float* qk = args.qk + row * (args.heads + 1) * width;
        for (std::size_t head = 0; head < args.heads; ++head) {
            float* y = args.rotated + (row * args.heads + head) * width;
            norm(qk + head * width, args.q_norm, width, args.epsilon, y);
            for (std::size_t i = 0; i < half; ++i)
                rotate(y[i], y[i + half], args.cosines[row * half + i], args.sines[row * half + i]);
        }
        float* key = args.keys + args.slots[row] / page * width * page + args.slots[row] % page;
        for (std::size_t i = 0; i < width; ++i) key[i * page] = qk[args.heads * width + i];
    }
}

/// Where the tokens of a row's history lie.
class History {
public:
    History(const HistoryRows& rows, std::size_t row) : rows_(rows), tokens_(rows.positions[row] + 1) {
        uint s = 0;
        while (row - rows.segments[s].first_row >= rows.segments[s].rows) ++s;
        segment_ = &rows.segments[s];
        if (segment_->commit) return;
        std::size_t place = tokens_ - segment_->committed;
        for (int at = int(row); at != no_row; at = rows.parents[at]) path_[--place] = std::uint32_t(at);
    }

    std::size_t tokens() const { return tokens_; }
    HWY_INLINE std::size_t slot(std::size_t token) const {
        if (!segment_->commit && token >= segment_->committed)
            return rows_.slots[path_[token - segment_->committed]];
        return std::size_t(rows_.pages[segment_->first_page + token / page]) * page + token % page;
    }

private:
    const HistoryRows& rows_;
    const SegmentRows* segment_;
    std::size_t tokens_;
    std::uint32_t path_[64];  // of a draft: ancestors, root first, the row itself last
};

void index_blocks_rows(const IndexBlocks& args, std::uint32_t first, std::uint32_t last, Scratch& scratch) {
    const std::size_t width = args.width, half = args.half;
    float* mean = scratch.floats(width);
    for (std::size_t row = first; row < last; ++row) {
        const History history(args.history, row);
        if (history.tokens() % args.ratio != 0) continue;
        const std::size_t begin = history.tokens() - args.ratio;
        std::memset(mean, 0, width * sizeof(float));
        for (std::size_t token = begin; token < history.tokens(); ++token) {
            const std::size_t slot = history.slot(token);
            const float* key = args.keys + slot / page * width * page + slot % page;
            for (std::size_t i = 0; i < width; ++i) mean[i] += key[i * page];
        }
        for (std::size_t i = 0; i < width; ++i) mean[i] /= float(args.ratio);
        float* y = args.blocks + std::size_t(args.history.slots[row]) * width;
        norm(mean, args.k_norm, width, args.epsilon, y);
        for (std::size_t i = 0; i < half; ++i) {
            const float angle = float(begin) * args.frequencies[i];
            rotate(y[i], y[i + half], std::cos(angle), std::sin(angle));
        }
    }
}

HWY_INLINE float score_of(const ChooseTokens& args, std::size_t row, const float* key) {
    float score = 0;
    for (std::size_t head = 0; head < args.heads; ++head) {
        const float match = dot(args.q + (row * args.heads + head) * args.width, key, args.width);
        if (match > 0) score += match;
    }
    return score;
}

/// A block and what it is worth. Of equal ones the earlier is worth more.
struct ScoredBlock {
    float score;
    std::uint32_t block;
    friend bool operator<(const ScoredBlock& a, const ScoredBlock& b) {
        return a.score != b.score ? a.score > b.score : a.block < b.block;  // so that the worst is on top
    }
};

/// The numbers of the row's best blocks, ascending, at the beginning of `best`. @return how many
HWY_INLINE std::size_t best_blocks(const ChooseTokens& args, std::size_t row, const History& history,
                                   std::size_t blocks, ScoredBlock* best) {
    const std::size_t kept = HWY_MIN(blocks, std::size_t(args.budget));
    for (std::size_t b = 0; b < blocks; ++b) {
        if (blocks == kept) {  // all are chosen, whatever they are worth
            best[b] = {0, std::uint32_t(b)};
            continue;
        }
        const std::size_t last = history.slot((b + 1) * args.ratio - 1);
        const float score = score_of(args, row, args.blocks + last * args.width);
        if (b < kept) {
            best[b] = {score, std::uint32_t(b)};
            if (b + 1 == kept) std::make_heap(best, best + kept);
        } else if (score > best[0].score) {
            std::pop_heap(best, best + kept);
            best[kept - 1] = {score, std::uint32_t(b)};
            std::push_heap(best, best + kept);
        }
    }
    std::sort(best, best + kept, [](const auto& x, const auto& y) { return x.block < y.block; });
    return kept;
}

void choose_tokens_rows(const ChooseTokens& args, std::uint32_t first, std::uint32_t last, Scratch& scratch) {
    const std::size_t ratio = args.ratio, most = std::size_t(args.budget) * ratio + ratio - 1;
    auto* best = reinterpret_cast<ScoredBlock*>(scratch.floats(2 * std::size_t(args.budget)));
    for (std::size_t row = first; row < last; ++row) {
        const History history(args.history, row);
        const std::size_t blocks = history.tokens() / ratio;
        uint* chosen = args.chosen + row * most;
        std::size_t count = 0;
        const std::size_t kept = best_blocks(args, row, history, blocks, best);
        for (std::size_t b = 0; b < kept; ++b)
            for (std::size_t i = 0; i < ratio; ++i)
                chosen[count++] = uint(history.slot(best[b].block * ratio + i));
        for (std::size_t token = blocks * ratio; token < history.tokens(); ++token)
            chosen[count++] = uint(history.slot(token));
        args.counts[row] = uint(count);
    }
}

/// One row with one key/value head: its tokens, and a score for each of them and each query head of the
/// group.
struct ChosenRow {
    const AttendChosen& args;
    std::size_t row, kv_head, group, count, stride;  // stride: the most tokens, in whole tiles
    const uint* slots;
    float *tile, *scores;  // [width, 16] and [group, stride]

    HWY_INLINE std::size_t page_of(std::size_t slot) const {
        return (slot / page * args.kv_heads + kv_head) * args.width * page;
    }

    /// Puts the keys of 16 tokens side by side.
    HWY_INLINE void gather(std::size_t begin) const {
        for (std::size_t t = 0; t < page; ++t) {
            if (begin + t >= count) {
                for (std::size_t i = 0; i < args.width; ++i) tile[i * page + t] = 0;
                continue;
            }
            const float* key = args.keys + page_of(slots[begin + t]) + slots[begin + t] % page;
            for (std::size_t i = 0; i < args.width; ++i) tile[i * page + t] = key[i * page];
        }
    }

    template <std::size_t heads>
    HWY_INLINE void score(std::size_t head, std::size_t begin) const {
        const F d;
        constexpr std::size_t vectors = page / HWY_MIN(page, hn::MaxLanes(F()));
        const float* q = args.q + (row * args.heads + kv_head * group + head) * args.width;
        FloatVec sums[heads][vectors];
        for (auto& s : sums)
            for (auto& v : s) v = hn::Zero(d);
        for (std::size_t i = 0; i < args.width; ++i)
            for (std::size_t j = 0; j < vectors; ++j) {
                const auto k = hn::LoadU(d, tile + i * page + j * hn::Lanes(d));
                for (std::size_t a = 0; a < heads; ++a)
                    sums[a][j] = hn::MulAdd(hn::Set(d, q[a * args.width + i]), k, sums[a][j]);
            }
        for (std::size_t a = 0; a < heads; ++a)
            for (std::size_t j = 0; j < vectors; ++j)
                hn::StoreU(hn::Mul(sums[a][j], hn::Set(d, args.scale)), d,
                           scores + (head + a) * stride + begin + j * hn::Lanes(d));
    }

    /// Scores to shares of their head's softmax.
    HWY_INLINE void share(float* of_head) const {
        const F d;
        auto most = hn::Set(d, of_head[0]);
        for (std::size_t t = 0; t < count; t += hn::Lanes(d)) {
            const auto here = hn::Lt(hn::Iota(d, 0.0f), hn::Set(d, float(count - t)));
            most = hn::Max(most, hn::IfThenElse(here, hn::LoadU(d, of_head + t), most));
        }
        most = hn::MaxOfLanes(d, most);
        auto total = hn::Zero(d);
        for (std::size_t t = 0; t < count; t += hn::Lanes(d)) {
            const auto here = hn::Lt(hn::Iota(d, 0.0f), hn::Set(d, float(count - t)));
            const auto w = hn::IfThenElseZero(here, hn::Exp(d, hn::Sub(hn::LoadU(d, of_head + t), most)));
            hn::StoreU(w, d, of_head + t);
            total = hn::Add(total, w);
        }
        const auto part = hn::Set(d, 1.0f / sum(total));
        for (std::size_t t = 0; t < count; t += hn::Lanes(d))
            hn::StoreU(hn::Mul(hn::LoadU(d, of_head + t), part), d, of_head + t);
    }

    template <std::size_t heads>
    HWY_INLINE void add_values(std::size_t head) const {
        const F d;
        const std::size_t width = args.width, first = row * args.heads + kv_head * group + head;
        for (std::size_t i = 0; i < width; i += hn::Lanes(d)) {
            const std::size_t left = width - i;
            FloatVec sums[heads];
            for (auto& s : sums) s = hn::Zero(d);
            for (std::size_t t = 0; t < count; ++t) {
                const auto v =
                    load_first(d, args.values + page_of(slots[t]) + slots[t] % page * width + i, left);
                for (std::size_t a = 0; a < heads; ++a)
                    sums[a] = hn::MulAdd(hn::Set(d, scores[(head + a) * stride + t]), v, sums[a]);
            }
            for (std::size_t a = 0; a < heads; ++a) {
                if (args.gate)
                    sums[a] =
                        hn::Mul(sums[a],
                                sigmoid(load_first(d, args.gate + (first + a) * args.gate_stride + i, left)));
                store_first(sums[a], d, args.o + (first + a) * width + i, left);
            }
        }
    }

    HWY_INLINE void run() const {
        for (std::size_t begin = 0; begin < count; begin += page) {
            gather(begin);
            std::size_t head = 0;
            for (; head + 4 <= group; head += 4) score<4>(head, begin);
            for (; head < group; ++head) score<1>(head, begin);
        }
        for (std::size_t head = 0; head < group; ++head) share(scores + head * stride);
        std::size_t head = 0;
        for (; head + 4 <= group; head += 4) add_values<4>(head);
        for (; head < group; ++head) add_values<1>(head);
    }
};

void attend_chosen_units(const AttendChosen& args, std::uint32_t first, std::uint32_t last,
                         Scratch& scratch) {
    const std::size_t group = args.heads / args.kv_heads, stride = hwy::RoundUpTo(args.most, page);
    float* room =
        scratch.floats(args.width * page + group * stride);  // of one size, however long a history is
    for (std::size_t unit = first; unit < last; ++unit) {
        const std::size_t row = unit / args.kv_heads, count = args.counts[row];
        ChosenRow{args,
                  row,
                  unit % args.kv_heads,
                  group,
                  count,
                  stride,
                  args.chosen + row * args.most,
                  room,
                  room + args.width * page}
            .run();
    }
}

}  // namespace kapitsa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kapitsa::cpu {

HWY_EXPORT(index_inputs_rows);
HWY_EXPORT(index_blocks_rows);
HWY_EXPORT(choose_tokens_rows);
HWY_EXPORT(attend_chosen_units);

namespace {

std::uint32_t rows_of(const IndexInputs& args) { return args.rows; }
template <typename Args>
std::uint32_t history_rows_of(const Args& args) {
    return args.history.rows;
}
std::uint32_t units_of(const AttendChosen& args) { return args.rows * args.kv_heads; }

void run_inputs(const IndexInputs& args, std::uint32_t first, std::uint32_t last, Scratch&) {
    HWY_DYNAMIC_DISPATCH(index_inputs_rows)(args, first, last);
}
void run_blocks(const IndexBlocks& args, std::uint32_t first, std::uint32_t last, Scratch& scratch) {
    HWY_DYNAMIC_DISPATCH(index_blocks_rows)(args, first, last, scratch);
}
void run_choose(const ChooseTokens& args, std::uint32_t first, std::uint32_t last, Scratch& scratch) {
    HWY_DYNAMIC_DISPATCH(choose_tokens_rows)(args, first, last, scratch);
}
void run_attend(const AttendChosen& args, std::uint32_t first, std::uint32_t last, Scratch& scratch) {
    HWY_DYNAMIC_DISPATCH(attend_chosen_units)(args, first, last, scratch);
}

constexpr Native natives[] = {
    native<rows_of, run_inputs>(index_inputs_f32),
    native<history_rows_of<IndexBlocks>, run_blocks>(index_blocks_f32),
    native<history_rows_of<ChooseTokens>, run_choose>(choose_tokens_f32),
    native<units_of, run_attend>(attend_chosen_f32),
};

}  // namespace

std::span<const Native> sparse_attend_natives() { return natives; }

}  // namespace kapitsa::cpu
#endif

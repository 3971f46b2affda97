// The native twin of kernels/choose_tokens.h.
//
// What a row chooses depends on its own history alone: blocks have one order, by score and then by place, in
// whatever parts they are sought.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/choose_tokens.cpp"
#include "hwy/foreach_target.h"  // compiles this file once an instruction set
// (after it)
#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/cpu/native.h"
#include "backend/cpu/vectors-inl.h"
#include "kernels/attend.h"
#include "kernels/choose_tokens.h"

#ifndef KAPITSA_CHOOSE_TOKENS_INL_
#define KAPITSA_CHOOSE_TOKENS_INL_
namespace kapitsa::cpu {
namespace {

constexpr std::size_t page = attend_page_tokens;

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
    std::size_t slot(std::size_t token) const {
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

/// A block and what it is worth. Of equal ones the earlier is worth more.
struct ScoredBlock {
    float score;
    std::uint32_t number;
};
inline bool is_better(const ScoredBlock& a, const ScoredBlock& b) {
    return a.score != b.score ? a.score > b.score : a.number < b.number;
}
inline bool is_earlier(const ScoredBlock& a, const ScoredBlock& b) { return a.number < b.number; }

/// The blocks of a part of `blocks` blocks.
inline std::size_t part_begin(std::size_t blocks, std::size_t part, std::size_t parts) {
    return blocks * part / parts;
}

}  // namespace
}  // namespace kapitsa::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace kapitsa::cpu::HWY_NAMESPACE {

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

HWY_INLINE float score_of(const BestBlocks& args, std::size_t row, const float* key) {
    float score = 0;
    for (std::size_t head = 0; head < args.heads; ++head) {
        const float match = dot(args.q + (row * args.heads + head) * args.width, key, args.width);
        if (match > 0) score += match;
    }
    return score;
}

/// A unit is a part of a row's history.
void best_blocks_units(const BestBlocks& args, std::uint32_t first, std::uint32_t last, Scratch& scratch) {
    const std::size_t budget = args.budget;
    auto* best = reinterpret_cast<ScoredBlock*>(scratch.floats(2 * budget));  // a heap, its worst on top
    for (std::size_t unit = first; unit < last; ++unit) {
        const std::size_t row = unit / args.parts, part = unit % args.parts;
        const History history(args.history, row);
        const std::size_t blocks = history.tokens() / args.ratio;
        if (blocks <= budget) continue;
        std::size_t count = 0;
        const std::size_t end = part_begin(blocks, part + 1, args.parts);
        for (std::size_t b = part_begin(blocks, part, args.parts); b < end; ++b) {
            const std::size_t completed = history.slot((b + 1) * args.ratio - 1);
            const ScoredBlock block{score_of(args, row, args.blocks + completed * args.width),
                                    std::uint32_t(b)};
            if (count == budget) {
                if (!is_better(block, best[0])) continue;
                std::pop_heap(best, best + count--, is_better);
            }
            best[count++] = block;
            std::push_heap(best, best + count, is_better);
        }
        std::sort(best, best + count, is_earlier);
        for (std::size_t i = 0; i < count; ++i) {
            args.scores[unit * budget + i] = best[i].score;
            args.numbers[unit * budget + i] = best[i].number;
        }
    }
}

}  // namespace kapitsa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kapitsa::cpu {

HWY_EXPORT(index_inputs_rows);
HWY_EXPORT(index_blocks_rows);
HWY_EXPORT(best_blocks_units);

namespace {

/// The numbers of a row's blocks that are chosen, ascending, to `best`. @return how many
inline std::size_t choose_blocks(const ChooseTokens& args, std::size_t row, std::size_t blocks,
                                 ScoredBlock* best) {
    const std::size_t budget = args.budget;
    std::size_t count = 0;
    if (blocks <= budget) {  // all are chosen, whatever they are worth
        for (; count < blocks; ++count) best[count] = {0, std::uint32_t(count)};
        return count;
    }
    for (std::size_t part = 0; part < args.parts; ++part) {
        const std::size_t of_part =
            part_begin(blocks, part + 1, args.parts) - part_begin(blocks, part, args.parts);
        const std::size_t from = (row * args.parts + part) * budget;
        for (std::size_t i = 0; i < std::min(of_part, budget); ++i)
            best[count++] = {args.scores[from + i], args.numbers[from + i]};
    }
    if (count > budget) std::nth_element(best, best + budget, best + count, is_better);
    std::sort(best, best + budget, is_earlier);
    return budget;
}

void run_choose(const ChooseTokens& args, std::uint32_t first, std::uint32_t last, Scratch& scratch) {
    const std::size_t ratio = args.ratio, most = std::size_t(args.budget) * ratio + ratio - 1;
    auto* best = reinterpret_cast<ScoredBlock*>(scratch.floats(2 * std::size_t(args.parts) * args.budget));
    for (std::size_t row = first; row < last; ++row) {
        const History history(args.history, row);
        const std::size_t blocks = history.tokens() / ratio;
        uint* chosen = args.chosen + row * most;
        std::size_t count = 0;
        const std::size_t kept = choose_blocks(args, row, blocks, best);
        for (std::size_t b = 0; b < kept; ++b)
            for (std::size_t i = 0; i < ratio; ++i)
                chosen[count++] = uint(history.slot(best[b].number * ratio + i));
        for (std::size_t token = blocks * ratio; token < history.tokens(); ++token)
            chosen[count++] = uint(history.slot(token));
        args.counts[row] = uint(count);
    }
}

std::uint32_t rows_of(const IndexInputs& args) { return args.rows; }
template <typename Args>
std::uint32_t history_rows_of(const Args& args) {
    return args.history.rows;
}
std::uint32_t parts_of(const BestBlocks& args) { return args.history.rows * args.parts; }

void run_inputs(const IndexInputs& args, std::uint32_t first, std::uint32_t last, Scratch&) {
    HWY_DYNAMIC_DISPATCH(index_inputs_rows)(args, first, last);
}
void run_blocks(const IndexBlocks& args, std::uint32_t first, std::uint32_t last, Scratch& scratch) {
    HWY_DYNAMIC_DISPATCH(index_blocks_rows)(args, first, last, scratch);
}
void run_best(const BestBlocks& args, std::uint32_t first, std::uint32_t last, Scratch& scratch) {
    HWY_DYNAMIC_DISPATCH(best_blocks_units)(args, first, last, scratch);
}

constexpr Native natives[] = {
    native<rows_of, run_inputs>(index_inputs_f32),
    native<history_rows_of<IndexBlocks>, run_blocks>(index_blocks_f32),
    native<parts_of, run_best>(best_blocks_f32),
    native<history_rows_of<ChooseTokens>, run_choose>(choose_tokens_f32),
};

}  // namespace

std::span<const Native> choose_tokens_natives() { return natives; }

}  // namespace kapitsa::cpu
#endif

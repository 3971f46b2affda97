// The native twin of kernels/sparse_attend.h.
//
// What a row sums, and in which order, depends on what it chose alone: the chosen tokens oldest first, all
// scores before all sums.
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

#ifndef KAPITSA_SPARSE_ATTEND_INL_
#define KAPITSA_SPARSE_ATTEND_INL_
namespace kapitsa::cpu {
namespace {

/// The query heads of one unit: all that share a key head where there are rows enough for everyone, else few,
/// so that a single row is work for many. Heads do not feel each other.
std::uint32_t heads_of_unit(const AttendChosen& args) {
    const std::uint32_t group = args.heads / args.kv_heads;
    return args.rows * args.kv_heads >= 16 ? group : std::min(group, 4u);
}

}  // namespace
}  // namespace kapitsa::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace kapitsa::cpu::HWY_NAMESPACE {

constexpr std::size_t page = attend_page_tokens;

/// One row with some query heads of one key/value head: its tokens, and a score for each of them and each
/// head.
struct ChosenRow {
    const AttendChosen& args;
    std::size_t row, kv_head, first_head, group;  // heads [first_head, first_head + group) of the row
    std::size_t count, stride;                    // tokens; the most there are, in whole tiles
    const uint* slots;
    float *room, *scores;  // [width, 16] and [group, stride]

    HWY_INLINE std::size_t page_of(std::size_t slot) const {
        return (slot / page * args.kv_heads + kv_head) * args.width * page;
    }
    /// Whether `tokens` of them from `begin` on are neighbours in one page.
    HWY_INLINE bool are_neighbours(std::size_t begin, std::size_t tokens) const {
        if (begin + tokens > count || slots[begin] % page + tokens > page) return false;
        for (std::size_t t = 1; t < tokens; ++t)
            if (slots[begin + t] != slots[begin] + t) return false;
        return true;
    }

    /// The keys of 16 tokens side by side: a page as it is, or gathered in `room`.
    HWY_INLINE const float* tile(std::size_t begin) const {
        if (are_neighbours(begin, page)) return args.keys + page_of(slots[begin]);
        constexpr std::size_t together = 4;  // as most indexers choose them
        for (std::size_t t = 0; t < page; t += together) {
            if (are_neighbours(begin + t, together)) {
                const float* key = args.keys + page_of(slots[begin + t]) + slots[begin + t] % page;
                for (std::size_t i = 0; i < args.width; ++i)
                    std::memcpy(room + i * page + t, key + i * page, together * sizeof(float));
                continue;
            }
            for (std::size_t one = t; one < t + together; ++one) gather(begin, one);
        }
        return room;
    }
    HWY_INLINE void gather(std::size_t begin, std::size_t t) const {
        if (begin + t >= count) {
            for (std::size_t i = 0; i < args.width; ++i) room[i * page + t] = 0;
            return;
        }
        const float* key = args.keys + page_of(slots[begin + t]) + slots[begin + t] % page;
        for (std::size_t i = 0; i < args.width; ++i) room[i * page + t] = key[i * page];
    }

    template <std::size_t heads>
    HWY_INLINE void score(const float* keys, std::size_t head, std::size_t begin) const {
        const F d;
        constexpr std::size_t vectors = page / HWY_MIN(page, hn::MaxLanes(F()));
        const float* q = args.q + (row * args.heads + first_head + head) * args.width;
        FloatVec sums[heads][vectors];
        for (auto& s : sums)
            for (auto& v : s) v = hn::Zero(d);
        for (std::size_t i = 0; i < args.width; ++i)
            for (std::size_t j = 0; j < vectors; ++j) {
                const auto k = hn::LoadU(d, keys + i * page + j * hn::Lanes(d));
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
        const std::size_t width = args.width, first = row * args.heads + first_head + head;
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
            const float* keys = tile(begin);
            std::size_t head = 0;
            for (; head + 4 <= group; head += 4) score<4>(keys, head, begin);
            for (; head < group; ++head) score<1>(keys, head, begin);
        }
        for (std::size_t head = 0; head < group; ++head) share(scores + head * stride);
        std::size_t head = 0;
        for (; head + 4 <= group; head += 4) add_values<4>(head);
        for (; head < group; ++head) add_values<1>(head);
    }
};

void attend_chosen_units(const AttendChosen& args, std::uint32_t first, std::uint32_t last,
                         Scratch& scratch) {
    const std::size_t group = args.heads / args.kv_heads, heads = heads_of_unit(args);
    const std::size_t pieces = divide_up(std::uint32_t(group), std::uint32_t(heads));
    const std::size_t stride = hwy::RoundUpTo(args.most, page);
    float* room =
        scratch.floats(args.width * page + heads * stride);  // of one size, however long a history is
    for (std::size_t unit = first; unit < last; ++unit) {
        const std::size_t row = unit / pieces / args.kv_heads, kv_head = unit / pieces % args.kv_heads;
        const std::size_t head = unit % pieces * heads;
        ChosenRow{args,
                  row,
                  kv_head,
                  kv_head * group + head,
                  HWY_MIN(heads, group - head),
                  args.counts[row],
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

HWY_EXPORT(attend_chosen_units);

namespace {

std::uint32_t units_of(const AttendChosen& args) {
    return args.rows * args.kv_heads * divide_up(args.heads / args.kv_heads, heads_of_unit(args));
}

void run_attend(const AttendChosen& args, std::uint32_t first, std::uint32_t last, Scratch& scratch) {
    HWY_DYNAMIC_DISPATCH(attend_chosen_units)(args, first, last, scratch);
}

constexpr Native natives[] = {
    native<units_of, run_attend>(attend_chosen_f32),
};

}  // namespace

std::span<const Native> sparse_attend_natives() { return natives; }

}  // namespace kapitsa::cpu
#endif

// The native twin of kernels/experts.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/experts.cpp"
#include "hwy/foreach_target.h"  // compiles this file once an instruction set
// (after it)
#include <limits>

#include "backend/cpu/native.h"
#include "backend/cpu/vectors-inl.h"
#include "kernels/experts.h"

HWY_BEFORE_NAMESPACE();
namespace kapitsa::cpu::HWY_NAMESPACE {

constexpr float absent = std::numeric_limits<float>::quiet_NaN();

/// The place of the largest value, the first of equal ones; `count` if all are absent.
HWY_INLINE std::uint32_t place_of_largest(const float* values, std::uint32_t count) {
    std::uint32_t best = count;
    for (std::uint32_t i = 0; i < count; ++i)
        if (values[i] == values[i] && (best == count || values[i] > values[best])) best = i;
    return best;
}

HWY_INLINE void softmax(const float* logits, std::size_t count, float* scores) {
    const F d;
    float most = logits[0];
    for (std::size_t i = 1; i < count; ++i) most = HWY_MAX(most, logits[i]);
    for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
        const auto below = hn::Sub(load_first(d, logits + i, count - i), hn::Set(d, most));
        store_first(hn::Exp(d, below), d, scores + i, count - i);
    }
    float total = 0;
    for (std::size_t i = 0; i < count; ++i) total += scores[i];
    for (std::size_t i = 0; i < count; ++i) scores[i] /= total;
}

/// Leaves the experts of the best groups alone.
HWY_INLINE void keep_groups(const Route& args, float* values, float* of_groups) {
    const std::uint32_t members = args.experts / args.groups;
    for (std::uint32_t g = 0; g < args.groups; ++g) {
        float* group = values + g * members;
        const std::uint32_t first = place_of_largest(group, members);
        const float best = group[first];
        group[first] = absent;
        const std::uint32_t second = place_of_largest(group, members);
        of_groups[g] = second == members ? best : best + group[second];
        group[first] = best;
    }
    for (std::uint32_t kept = 0; kept < args.groups_kept; ++kept)
        of_groups[place_of_largest(of_groups, args.groups)] = absent;
    for (std::uint32_t g = 0; g < args.groups; ++g)
        if (of_groups[g] == of_groups[g])
            for (std::uint32_t i = 0; i < members; ++i) values[g * members + i] = absent;
}

void route_row(const Route& args, std::size_t row, float* room) {
    const F d;
    const std::size_t experts = args.experts;
    float *scores = room, *values = room + experts, *of_groups = room + 2 * experts;
    const float* logits = args.logits + row * experts;
    if (args.bias) {
        for (std::size_t i = 0; i < experts; ++i) values[i] = logits[i] + args.bias[i];
        logits = values;
    }
    if (args.sigmoid) {
        for (std::size_t i = 0; i < experts; i += hn::Lanes(d))
            store_first(sigmoid(load_first(d, logits + i, experts - i)), d, scores + i, experts - i);
    } else {
        softmax(logits, experts, scores);
    }
    for (std::size_t i = 0; i < experts; ++i) {
        const float value = args.correction ? scores[i] + args.correction[i] : scores[i];
        values[i] = value == value ? value : -std::numeric_limits<float>::infinity();
    }
    if (args.groups > 1) keep_groups(args, values, of_groups);

    std::uint32_t* chosen = args.chosen + row * args.picks;
    float* weights = args.weights + row * args.picks;
    float total = args.epsilon;
    for (std::uint32_t pick = 0; pick < args.picks; ++pick) {
        const std::uint32_t best = place_of_largest(values, args.experts);
        values[best] = absent;
        chosen[pick] = best;
        weights[pick] = scores[best];
        total += scores[best];
    }
    for (std::uint32_t pick = 0; pick < args.picks; ++pick)
        weights[pick] = args.scale * (args.normalise ? weights[pick] / total : weights[pick]);
}

void route_rows(const Route& args, std::uint32_t first, std::uint32_t last, Scratch& scratch) {
    float* room = scratch.floats(2 * std::size_t(args.experts) + args.groups);
    for (std::size_t row = first; row < last; ++row) route_row(args, row, room);
}

void combine_rows(const CombineExperts& args, std::uint32_t first, std::uint32_t last) {
    const F d;
    const std::size_t columns = args.columns;
    for (std::size_t row = first; row < last; ++row) {
        const std::uint32_t* places = args.places + row * args.picks;
        const float* weights = args.weights + row * args.picks;
        const auto part = args.shared_gate ? sigmoid(hn::Set(d, args.shared_gate[row])) : hn::Set(d, 1.0f);
        for (std::size_t i = 0; i < columns; i += hn::Lanes(d)) {
            const std::size_t left = columns - i;
            auto total = hn::Zero(d);
            for (std::size_t pick = 0; pick < args.picks; ++pick)
                total = hn::MulAdd(hn::Set(d, weights[pick]),
                                   load_first(d, args.x + places[pick] * columns + i, left), total);
            if (args.shared)
                total = hn::MulAdd(part, load_first(d, args.shared + row * columns + i, left), total);
            if (args.add) total = hn::Add(total, load_first(d, args.add + row * columns + i, left));
            store_first(total, d, args.y + row * columns + i, left);
        }
    }
}

}  // namespace kapitsa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>

namespace kapitsa::cpu {

HWY_EXPORT(route_rows);
HWY_EXPORT(combine_rows);

namespace {

template <typename Args>
std::uint32_t rows_of(const Args& args) {
    return args.rows;
}
std::uint32_t all_at_once(const GroupByExpert&) { return 1; }
void run_route(const Route& args, std::uint32_t first, std::uint32_t last, Scratch& scratch) {
    HWY_DYNAMIC_DISPATCH(route_rows)(args, first, last, scratch);
}
void run_combine(const CombineExperts& args, std::uint32_t first, std::uint32_t last, Scratch&) {
    HWY_DYNAMIC_DISPATCH(combine_rows)(args, first, last);
}

/// A counting sort.
void run_group(const GroupByExpert& args, std::uint32_t, std::uint32_t, Scratch& scratch) {
    const std::uint32_t choices = args.rows * args.picks, most = std::min(args.experts, choices);
    auto* next = reinterpret_cast<std::uint32_t*>(scratch.floats(args.experts));
    std::fill_n(next, args.experts, 0u);
    for (std::uint32_t i = 0; i < choices; ++i) ++next[args.chosen[i]];
    std::uint32_t groups = 0, first = 0;
    for (std::uint32_t expert = 0; expert < args.experts; ++expert) {
        const std::uint32_t rows = next[expert];
        next[expert] = first;
        if (rows > 0) args.groups[groups++] = {expert, first, rows};
        first += rows;
    }
    std::fill(args.groups + groups, args.groups + most, ExpertGroup{});
    for (std::uint32_t i = 0; i < choices; ++i) {
        const std::uint32_t place = next[args.chosen[i]]++;
        args.from[place] = i / args.picks;
        args.places[i] = place;
    }
}

constexpr Native natives[] = {
    native<rows_of<Route>, run_route>(route_f32),
    native<all_at_once, run_group>(group_by_expert),
    native<rows_of<CombineExperts>, run_combine>(combine_experts_f32),
};

}  // namespace

std::span<const Native> experts_natives() { return natives; }

}  // namespace kapitsa::cpu
#endif

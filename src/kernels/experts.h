// The steps of routed experts around their matrix products (kernels/multiply_experts.h): each row chooses a
// few experts, the choices are put in groups by expert so that an expert's weights are read once, and what
// the experts gave is summed up again row by row. Each row's result depends on that row alone.
#pragma once

#include "kernels/activations.h"
#include "kernels/dialect/dialect.h"

namespace kapitsa {

constexpr uint experts_at_most = 1024;  // of a layer

/// Chooses experts for each row and weighs them. Of equal ones the one of the lowest number is better; NaN is
/// worst.
struct Route {
    In<float> logits;      // [rows, experts]
    In<float> bias;        // [experts] added to the logits, or null
    In<float> correction;  // [experts] added to a score where experts are chosen but not where they are
                           // weighed, or null
    Out<uint> chosen;      // [rows, picks] the best first
    Out<float>
        weights;  // [rows, picks] scale * score, or scale * score / (epsilon + sum of the chosen scores)
    uint rows, experts;
    uint picks;                // at most experts / groups * groups_kept
    uint groups, groups_kept;  // neighbouring experts form groups; those are kept whose best two experts' sum
                               // is best. 1 and 1: no groups. `groups` divides `experts`.
    uint sigmoid;              // scores: 0 the softmax over all experts, 1 each logit's sigmoid
    uint normalise;
    float epsilon, scale;
};
GRID(Route, args.rows, 1, 1, 32)

/// Neighbouring rows of one expert.
struct ExpertGroup {
    uint expert, first, rows;
};

/// Sorts the choices of all rows by expert; those of one expert stay in the order of rows.
struct GroupByExpert {
    In<uint> chosen;  // [rows, picks]
    Out<ExpertGroup>
        groups;        // [min(experts, rows * picks)] ascending by expert; the last ones may have no rows
    Out<uint> from;    // [rows * picks] by place in the groups: the row
    Out<uint> places;  // [rows, picks] by choice: its place in the groups
    uint rows, picks, experts;
};
GRID(GroupByExpert, 1, 1, 1, parts_of(args.experts, 32) * 32)

/// y = add + the weighted sum of what the chosen experts gave + sigmoid(shared_gate) * shared.
struct CombineExperts {
    In<float> x;            // [rows * picks, columns] by place in the groups
    In<uint> places;        // [rows, picks]
    In<float> weights;      // [rows, picks]
    In<float> shared;       // [rows, columns] what an expert of all rows gave, or null
    In<float> shared_gate;  // [rows], or null: 1 in place of the sigmoid
    In<float> add;          // [rows, columns], or null
    Out<float> y;           // [rows, columns]; may be `add`
    uint rows, picks, columns;
};
GRID(CombineExperts, args.rows, parts_of(args.columns, 256), 1, 256)

#ifdef KERNEL_BODIES

struct RouteScratch {
    float scores[experts_at_most], values[experts_at_most], of_groups[experts_at_most];
};

/// The place of the largest value, the first of equal ones; `count` if all are absent, which is NaN.
BODY uint place_of_largest(SharedArray<float> values, uint count, uint lane) {
    float best = 0;
    uint place = count;
    for (uint i = lane; i < count; i += 32)
        if (values[i] == values[i] && (place == count || values[i] > best)) {
            best = values[i];
            place = i;
        }
    for (uint step = 16; step > 0; step /= 2) {
        const float other = simd_shuffle_xor(best, step);
        const uint other_place = simd_shuffle_xor(place, step);
        if (other_place == count) continue;
        if (place == count || other > best || (other == best && other_place < place)) {
            best = other;
            place = other_place;
        }
    }
    return place;
}

/// Takes a value out, and says what it was.
BODY float take(SharedArray<float> values, uint place, uint lane) {
    const float value = values[place];
    simd_barrier();
    if (lane == 0) values[place] = float_of_bits(0x7fc00000);
    simd_barrier();
    return value;
}

/// Leaves the experts of the best groups alone.
BODY void keep_groups(Args<Route> args, uint lane, Shared<RouteScratch> scratch) {
    const uint members = args.experts / args.groups;
    for (uint g = 0; g < args.groups; ++g) {
        const SharedArray<float> group = scratch.values + g * members;
        const uint first = place_of_largest(group, members, lane);
        const float best = take(group, first, lane);
        const uint second = place_of_largest(group, members, lane);
        if (lane == 0) {
            scratch.of_groups[g] = second == members ? best : best + group[second];
            group[first] = best;
        }
        simd_barrier();
    }
    for (uint kept = 0; kept < args.groups_kept; ++kept)
        take(scratch.of_groups, place_of_largest(scratch.of_groups, args.groups, lane), lane);
    for (uint i = lane; i < args.experts; i += 32)
        if (scratch.of_groups[i / members] == scratch.of_groups[i / members])
            scratch.values[i] = float_of_bits(0x7fc00000);
    simd_barrier();
}

BODY void route(Args<Route> args, Position at, Shared<RouteScratch> scratch) {
    const uint lane = at.lane, row = at.group.x;
    const In<float> logits = args.logits + ulong(row) * args.experts;
    float most = -float_of_bits(0x7f800000);
    for (uint i = lane; i < args.experts; i += 32) {
        const float logit = args.bias ? logits[i] + args.bias[i] : logits[i];
        scratch.scores[i] = args.sigmoid ? sigmoid(logit) : logit;
        most = max(most, logit);
    }
    if (!args.sigmoid) {
        most = simd_max(most);
        float total = 0;
        for (uint i = lane; i < args.experts; i += 32) {
            scratch.scores[i] = exp(scratch.scores[i] - most);
            total += scratch.scores[i];
        }
        total = simd_sum(total);
        for (uint i = lane; i < args.experts; i += 32) scratch.scores[i] /= total;
    }
    for (uint i = lane; i < args.experts; i += 32) {
        const float value = args.correction ? scratch.scores[i] + args.correction[i] : scratch.scores[i];
        scratch.values[i] = value == value ? value : -float_of_bits(0x7f800000);
    }
    simd_barrier();
    if (args.groups > 1) keep_groups(args, lane, scratch);

    const Out<uint> chosen = args.chosen + ulong(row) * args.picks;
    const Out<float> weights = args.weights + ulong(row) * args.picks;
    float total = args.epsilon;
    for (uint pick = 0; pick < args.picks; ++pick) {
        const uint best = place_of_largest(scratch.values, args.experts, lane);
        take(scratch.values, best, lane);
        if (lane == 0) chosen[pick] = best;
        total += scratch.scores[best];
        if (lane == 0) weights[pick] = scratch.scores[best];
    }
    if (lane == 0)
        for (uint pick = 0; pick < args.picks; ++pick)
            weights[pick] = args.scale * (args.normalise ? weights[pick] / total : weights[pick]);
}

struct GroupByExpertScratch {
    uint rows[32], groups[32];  // of the experts of a simdgroup; then of all before it
};

/// The sum over the lanes before this one.
BODY uint sum_before(uint value, uint lane) {
    uint total = value;
    for (uint step = 1; step < 32; step *= 2) {
        const uint other = simd_shuffle(total, (lane - step) % 32);
        if (lane >= step) total += other;
    }
    return total - value;
}

/// A counting sort; a thread has an expert.
BODY void sort_by_expert(Args<GroupByExpert> args, Position at, Shared<GroupByExpertScratch> scratch) {
    const uint choices = args.rows * args.picks, expert = at.index;
    uint rows = 0;
    for (uint i = 0; i < choices; ++i) rows += args.chosen[i] == expert ? 1 : 0;
    const uint group = rows > 0 ? 1 : 0;
    uint first = sum_before(rows, at.lane), groups = sum_before(group, at.lane);
    if (at.lane == 31) {
        scratch.rows[at.simdgroup] = first + rows;
        scratch.groups[at.simdgroup] = groups + group;
    }
    group_barrier();
    uint all_groups = 0;
    for (uint s = 0; s < at.simdgroups; ++s) {
        if (s < at.simdgroup) {
            first += scratch.rows[s];
            groups += scratch.groups[s];
        }
        all_groups += scratch.groups[s];
    }
    if (group != 0) args.groups[groups] = ExpertGroup{expert, first, rows};
    const uint most = min(args.experts, choices);
    for (uint g = all_groups + at.index; g < most; g += at.simdgroups * 32)
        args.groups[g] = ExpertGroup{0, 0, 0};
    for (uint i = 0; i < choices && rows > 0; ++i) {
        if (args.chosen[i] != expert) continue;
        args.from[first] = i / args.picks;
        args.places[i] = first;
        ++first;
    }
}

BODY void combine_experts(Args<CombineExperts> args, Position at, Shared<None>) {
    const uint i = at.group.y * 256 + at.index;
    if (i >= args.columns) return;
    const ulong row = at.group.x;
    float total = 0;
    for (uint pick = 0; pick < args.picks; ++pick) {
        const ulong place = args.places[row * args.picks + pick];
        total = fma(args.weights[row * args.picks + pick], args.x[place * args.columns + i], total);
    }
    if (args.shared)
        total = fma(args.shared_gate ? sigmoid(args.shared_gate[row]) : 1.0f,
                    args.shared[row * args.columns + i], total);
    if (args.add) total += args.add[row * args.columns + i];
    args.y[row * args.columns + i] = total;
}

#endif

ENTRY(route_f32, route, Route, RouteScratch)
ENTRY(group_by_expert, sort_by_expert, GroupByExpert, GroupByExpertScratch)
ENTRY(combine_experts_f32, combine_experts, CombineExperts, None)

}  // namespace kapitsa

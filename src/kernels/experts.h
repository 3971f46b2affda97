// The steps of routed experts around their matrix products (kernels/multiply_experts.h): each row chooses a
// few experts, the choices are put in groups by expert so that an expert's weights are read once, and what
// the experts gave is summed up again row by row. Each row's result depends on that row alone.
#pragma once

#include "kernels/dialect/host.h"

namespace kapitsa {

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

ENTRY(route_f32, Route)
ENTRY(group_by_expert, GroupByExpert)
ENTRY(combine_experts_f32, CombineExperts)

}  // namespace kapitsa

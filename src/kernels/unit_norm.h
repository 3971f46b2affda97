// The steps of models that keep their vectors on the unit sphere: unit(x) = x / sqrt(sum of x^2 + epsilon), a
// row at a time. Each row's result depends on that row alone.
#pragma once

#include "kernels/activations.h"
#include "kernels/dialect/dialect.h"
#include "kernels/group_sum.h"

namespace kapitsa {

/// y = unit(a + b).
struct UnitOfSum {
    In<float> a;   // [rows, columns]
    In<float> b;   // [rows, columns]; null: zero
    Out<float> y;  // [rows, columns]; may be a
    uint rows, columns;
    float epsilon;
};
GRID(UnitOfSum, args.rows, 1, 1, 256)

/// y = unit(u + share * (unit(other) - u)) of u = unit(x): a step from x towards `other`.
struct UnitStep {
    In<float> x, other;  // [rows, columns]
    In<float> share;     // [columns]
    Out<float> y;        // [rows, columns]; may be x
    uint rows, columns;
    float epsilon;
};
GRID(UnitStep, args.rows, 1, 1, 256)

/// y = unit(silu(gate * gate_scale) * (up * up_scale)).
struct UnitSwiGlu {
    In<float> gate, up;              // [rows, columns]
    In<float> gate_scale, up_scale;  // [columns]
    Out<float> y;                    // [rows, columns]; may be gate or up
    uint rows, columns;
    float epsilon;
};
GRID(UnitSwiGlu, args.rows, 1, 1, 256)

/// y = unit(x * sigmoid(gate * gate_scale)).
struct UnitGated {
    In<float> x, gate;     // [rows, columns]
    In<float> gate_scale;  // [columns]
    Out<float> y;          // [rows, columns]; may be x or gate
    uint rows, columns;
    float epsilon;
};
GRID(UnitGated, args.rows, 1, 1, 256)

#ifdef KERNEL_BODIES

struct UnitScratch {
    GroupWords sum;
};

/// What makes a unit vector of one whose squares the threads have added up, each its own.
BODY float unit_scale(float squares, float epsilon, Position at, Shared<UnitScratch> scratch) {
    return rsqrt(group_sum(squares, at, scratch.sum) + epsilon);
}

/// y, which each thread has filled at its own columns, to the unit sphere.
BODY void make_unit(Out<float> y, uint columns, float epsilon, Position at, Shared<UnitScratch> scratch) {
    const uint threads = at.simdgroups * 32;
    float squares = 0;
    for (uint i = at.index; i < columns; i += threads) squares = fma(y[i], y[i], squares);
    const float scale = unit_scale(squares, epsilon, at, scratch);
    for (uint i = at.index; i < columns; i += threads) y[i] *= scale;
}

BODY void unit_of_sum(Args<UnitOfSum> args, Position at, Shared<UnitScratch> scratch) {
    const ulong begin = ulong(at.group.x) * args.columns;
    const Out<float> y = args.y + begin;
    for (uint i = at.index; i < args.columns; i += at.simdgroups * 32)
        y[i] = args.b ? args.a[begin + i] + args.b[begin + i] : args.a[begin + i];
    make_unit(y, args.columns, args.epsilon, at, scratch);
}

BODY void unit_step(Args<UnitStep> args, Position at, Shared<UnitScratch> scratch) {
    const ulong begin = ulong(at.group.x) * args.columns;
    const uint threads = at.simdgroups * 32;
    const In<float> x = args.x + begin, other = args.other + begin;
    const Out<float> y = args.y + begin;
    float of_x = 0, of_other = 0;
    for (uint i = at.index; i < args.columns; i += threads) {
        of_x = fma(x[i], x[i], of_x);
        of_other = fma(other[i], other[i], of_other);
    }
    of_x = unit_scale(of_x, args.epsilon, at, scratch);
    of_other = unit_scale(of_other, args.epsilon, at, scratch);
    for (uint i = at.index; i < args.columns; i += threads) {
        const float a = x[i] * of_x, b = other[i] * of_other;
        y[i] = fma(args.share[i], b - a, a);
    }
    make_unit(y, args.columns, args.epsilon, at, scratch);
}

BODY void unit_swiglu(Args<UnitSwiGlu> args, Position at, Shared<UnitScratch> scratch) {
    const ulong begin = ulong(at.group.x) * args.columns;
    const Out<float> y = args.y + begin;
    for (uint i = at.index; i < args.columns; i += at.simdgroups * 32)
        y[i] = silu(args.gate[begin + i] * args.gate_scale[i]) * (args.up[begin + i] * args.up_scale[i]);
    make_unit(y, args.columns, args.epsilon, at, scratch);
}

BODY void unit_gated(Args<UnitGated> args, Position at, Shared<UnitScratch> scratch) {
    const ulong begin = ulong(at.group.x) * args.columns;
    const Out<float> y = args.y + begin;
    for (uint i = at.index; i < args.columns; i += at.simdgroups * 32)
        y[i] = args.x[begin + i] * sigmoid(args.gate[begin + i] * args.gate_scale[i]);
    make_unit(y, args.columns, args.epsilon, at, scratch);
}

#endif

ENTRY(unit_of_sum_f32, unit_of_sum, UnitOfSum, UnitScratch)
ENTRY(unit_step_f32, unit_step, UnitStep, UnitScratch)
ENTRY(unit_swiglu_f32, unit_swiglu, UnitSwiGlu, UnitScratch)
ENTRY(unit_gated_f32, unit_gated, UnitGated, UnitScratch)

}  // namespace kapitsa

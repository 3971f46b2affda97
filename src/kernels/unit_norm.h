// The steps of models that keep their vectors on the unit sphere: unit(x) = x / sqrt(sum of x^2 + epsilon), a
// row at a time. Each row's result depends on that row alone.
#pragma once

#include "kernels/dialect/host.h"

namespace kapitsa {

/// y = unit(a + b).
struct UnitOfSum {
    In<float> a;   // [rows, columns]
    In<float> b;   // [rows, columns]; null: zero
    Out<float> y;  // [rows, columns]; may be a
    uint rows, columns;
    float epsilon;
};

/// y = unit(u + share * (unit(other) - u)) of u = unit(x): a step from x towards `other`.
struct UnitStep {
    In<float> x, other;  // [rows, columns]
    In<float> share;     // [columns]
    Out<float> y;        // [rows, columns]; may be x
    uint rows, columns;
    float epsilon;
};

/// y = unit(silu(gate * gate_scale) * (up * up_scale)).
struct UnitSwiGlu {
    In<float> gate, up;              // [rows, columns]
    In<float> gate_scale, up_scale;  // [columns]
    Out<float> y;                    // [rows, columns]; may be gate or up
    uint rows, columns;
    float epsilon;
};

/// y = unit(x * sigmoid(gate * gate_scale)).
struct UnitGated {
    In<float> x, gate;     // [rows, columns]
    In<float> gate_scale;  // [columns]
    Out<float> y;          // [rows, columns]; may be x or gate
    uint rows, columns;
    float epsilon;
};

ENTRY(unit_of_sum_f32, UnitOfSum)
ENTRY(unit_step_f32, UnitStep)
ENTRY(unit_swiglu_f32, UnitSwiGlu)
ENTRY(unit_gated_f32, UnitGated)

}  // namespace kapitsa

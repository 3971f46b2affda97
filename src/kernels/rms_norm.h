// y = x / rms(x) * weight, for the rows of a list, or for all.
#pragma once

#include "kernels/dialect/host.h"

namespace kapitsa {

struct RmsNorm {
    In<float> x;       // [.., columns]
    In<float> weight;  // [columns]
    In<uint> picked;   // [rows] which rows of x; null: row i of x
    Out<float> y;      // [rows, columns]
    uint rows, columns;
    float epsilon;
};

/// y = x / rms(x) * weight * silu(gate) (or sigmoid(gate)), a head at a time: norm before gate.
struct GatedRmsNorm {
    In<float> x;       // [rows, heads, width]
    In<float> gate;    // [rows, heads, width]
    In<float> weight;  // [width], one for all heads
    Out<float> y;      // [rows, heads, width]
    uint rows, heads, width;
    float epsilon;
    uint sigmoid;  // 1: in place of silu
};

/// y = v / rms(v) * weight of v = x * silu(gate), a group of columns at a time: gate before norm.
struct NormOfGated {
    In<float> x;       // [rows, groups, width]
    In<float> gate;    // [rows, groups, width]
    In<float> weight;  // [groups, width]
    Out<float> y;      // [rows, groups, width]
    uint rows, groups, width;
    float epsilon;
};

ENTRY(rms_norm_f32, RmsNorm)
ENTRY(gated_rms_norm_f32, GatedRmsNorm)
ENTRY(norm_of_gated_f32, NormOfGated)

}  // namespace kapitsa

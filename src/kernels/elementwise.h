// The small steps between the large ones.
#pragma once

#include "kernels/dialect/host.h"

namespace kapitsa {

/// y = silu(gate) * up.
struct SwiGlu {
    In<float> gate, up;  // [elements]
    Out<float> y;        // [elements]
    uint elements;
};

/// y = max(x, 0)^2.
struct SquaredRelu {
    In<float> x;   // [elements]
    Out<float> y;  // [elements]
    uint elements;
};

/// y = x * Phi(x), Phi the normal distribution: exactly, or by its approximation with tanh.
struct Gelu {
    In<float> x;   // [elements]
    Out<float> y;  // [elements]
    uint elements;
};

/// x += bias, column by column.
struct AddBias {
    In<float> bias;  // [columns]
    Out<float> x;    // [rows, columns]
    uint rows, columns;
};

/// y = x * scale, column by column.
struct ScaleColumns {
    In<float> x;      // [rows, columns]
    In<float> scale;  // [columns]
    Out<float> y;     // [rows, columns]; may be x
    uint rows, columns;
};

/// Copies rows of x, picked by a list, one behind the other.
struct CopyRows {
    In<float> x;    // [.., columns]
    In<uint> from;  // [rows]; null: row i
    In<uint> to;    // [rows]; null: row i
    Out<float> y;   // [.., columns]
    uint rows, columns;
};

/// y = each row of `left` followed by that of `right`.
struct JoinRows {
    In<float> left;   // [rows, left_columns]
    In<float> right;  // [rows, right_columns]
    Out<float> y;     // [rows, left_columns + right_columns]
    uint rows, left_columns, right_columns;
};

/// Zeroes a stretch of floats.
struct Zero {
    Out<float> y;  // [elements]
    uint elements;
};

ENTRY(swiglu_f32, SwiGlu)
ENTRY(squared_relu_f32, SquaredRelu)
ENTRY(gelu_erf_f32, Gelu)
ENTRY(gelu_tanh_f32, Gelu)
ENTRY(add_bias_f32, AddBias)
ENTRY(scale_columns_f32, ScaleColumns)
ENTRY(copy_rows_f32, CopyRows)
ENTRY(join_rows_f32, JoinRows)
ENTRY(zero_f32, Zero)

}  // namespace kapitsa

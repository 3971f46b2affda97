// The small steps between the large ones.
#pragma once

#include "kernels/activations.h"
#include "kernels/dialect/dialect.h"

namespace kapitsa {

constexpr uint elementwise_threads = 256;  // of a group; an element a thread

/// y = silu(gate) * up.
struct SwiGlu {
    In<float> gate, up;  // [elements]
    Out<float> y;        // [elements]
    uint elements;
};
GRID(SwiGlu, parts_of(args.elements, elementwise_threads), 1, 1, elementwise_threads)

/// y = max(x, 0)^2.
struct SquaredRelu {
    In<float> x;   // [elements]
    Out<float> y;  // [elements]
    uint elements;
};
GRID(SquaredRelu, parts_of(args.elements, elementwise_threads), 1, 1, elementwise_threads)

/// y = x * Phi(x), Phi the normal distribution: exactly, or by its approximation with tanh.
struct Gelu {
    In<float> x;   // [elements]
    Out<float> y;  // [elements]
    uint elements;
};
GRID(Gelu, parts_of(args.elements, elementwise_threads), 1, 1, elementwise_threads)

/// x += bias, column by column.
struct AddBias {
    In<float> bias;  // [columns]
    Out<float> x;    // [rows, columns]
    uint rows, columns;
};
GRID(AddBias, args.rows, parts_of(args.columns, elementwise_threads), 1, elementwise_threads)

/// y = x * scale, column by column.
struct ScaleColumns {
    In<float> x;      // [rows, columns]
    In<float> scale;  // [columns]
    Out<float> y;     // [rows, columns]; may be x
    uint rows, columns;
};
GRID(ScaleColumns, args.rows, parts_of(args.columns, elementwise_threads), 1, elementwise_threads)

/// Copies rows of x, picked by a list, one behind the other.
struct CopyRows {
    In<float> x;    // [.., columns]
    In<uint> from;  // [rows]; null: row i
    In<uint> to;    // [rows]; null: row i
    Out<float> y;   // [.., columns]
    uint rows, columns;
};
GRID(CopyRows, args.rows, parts_of(args.columns, elementwise_threads), 1, elementwise_threads)

/// y = each row of `left` followed by that of `right`.
struct JoinRows {
    In<float> left;   // [rows, left_columns]
    In<float> right;  // [rows, right_columns]
    Out<float> y;     // [rows, left_columns + right_columns]
    uint rows, left_columns, right_columns;
};
GRID(JoinRows, args.rows, parts_of(args.left_columns + args.right_columns, elementwise_threads), 1,
     elementwise_threads)

/// Zeroes a stretch of floats.
struct Zero {
    Out<float> y;  // [elements]
    uint elements;
};
GRID(Zero, parts_of(args.elements, elementwise_threads), 1, 1, elementwise_threads)

#ifdef KERNEL_BODIES

/// The element of the thread; whoever is behind the last one has none.
BODY uint element_of(Position at) { return at.group.x * elementwise_threads + at.index; }
/// The same within a row, where x is the row.
BODY uint column_of(Position at) { return at.group.y * elementwise_threads + at.index; }
BODY ulong row_begin(Position at, uint columns) { return ulong(at.group.x) * columns; }

BODY void swiglu(Args<SwiGlu> args, Position at, Shared<None>) {
    const uint i = element_of(at);
    if (i < args.elements) args.y[i] = silu(args.gate[i]) * args.up[i];
}

BODY void squared_relu(Args<SquaredRelu> args, Position at, Shared<None>) {
    const uint i = element_of(at);
    if (i >= args.elements) return;
    const float x = args.x[i], kept = x < 0.0f ? 0.0f : x;  // NaN must show
    args.y[i] = kept * kept;
}

BODY void gelu_erf(Args<Gelu> args, Position at, Shared<None>) {
    const uint i = element_of(at);
    if (i < args.elements) args.y[i] = 0.5f * args.x[i] * (1.0f + erf(args.x[i] * 0.70710678118655f));
}

BODY void gelu_tanh(Args<Gelu> args, Position at, Shared<None>) {
    const uint i = element_of(at);
    if (i >= args.elements) return;
    const float x = args.x[i];
    // (1 + tanh(z)) / 2 is the logistic function of 2z; 2 * sqrt(2 / pi).
    args.y[i] = x * sigmoid(1.59576912160573f * fma(0.044715f * (x * x), x, x));
}

BODY void add_bias(Args<AddBias> args, Position at, Shared<None>) {
    const uint i = column_of(at);
    if (i < args.columns) args.x[row_begin(at, args.columns) + i] += args.bias[i];
}

BODY void scale_columns(Args<ScaleColumns> args, Position at, Shared<None>) {
    const uint i = column_of(at);
    if (i < args.columns)
        args.y[row_begin(at, args.columns) + i] = args.x[row_begin(at, args.columns) + i] * args.scale[i];
}

BODY void copy_rows(Args<CopyRows> args, Position at, Shared<None>) {
    const uint i = column_of(at), row = at.group.x;
    const ulong from = args.from ? args.from[row] : row, to = args.to ? args.to[row] : row;
    if (i < args.columns) args.y[to * args.columns + i] = args.x[from * args.columns + i];
}

BODY void join_rows(Args<JoinRows> args, Position at, Shared<None>) {
    const uint i = column_of(at), left = args.left_columns, right = args.right_columns;
    if (i < left + right)
        args.y[row_begin(at, left + right) + i] =
            i < left ? args.left[row_begin(at, left) + i] : args.right[row_begin(at, right) + i - left];
}

BODY void zero(Args<Zero> args, Position at, Shared<None>) {
    const uint i = element_of(at);
    if (i < args.elements) args.y[i] = 0.0f;
}

#endif

ENTRY(swiglu_f32, swiglu, SwiGlu, None)
ENTRY(squared_relu_f32, squared_relu, SquaredRelu, None)
ENTRY(gelu_erf_f32, gelu_erf, Gelu, None)
ENTRY(gelu_tanh_f32, gelu_tanh, Gelu, None)
ENTRY(add_bias_f32, add_bias, AddBias, None)
ENTRY(scale_columns_f32, scale_columns, ScaleColumns, None)
ENTRY(copy_rows_f32, copy_rows, CopyRows, None)
ENTRY(join_rows_f32, join_rows, JoinRows, None)
ENTRY(zero_f32, zero, Zero, None)

}  // namespace kapitsa

// y = W x (+ add), for one to four matrices that share their x, format and width. The sums of a row are taken
// in one order whatever the number of rows, so a row's result does not depend on its company.
#pragma once

#include "kernels/dialect/host.h"

namespace kapitsa {

constexpr uint multiply_parts = 4;

template <typename T>
struct MultiplyDense {
    struct Part {
        In<T> weight;   // [outputs, columns]
        In<float> add;  // [rows, outputs], or null
        Out<float> y;   // [rows, outputs]; may be `add`
        uint outputs, unused;
    };
    Part parts[multiply_parts];
    In<float> x;  // [rows, columns]
    uint count, rows, columns;
};

/// MLX affine: w = scale * q + bias.
template <typename Scale>
struct MultiplyAffine {
    struct Part {
        In<uint> codes;    // [outputs, columns * bits / 32], a little-endian stream of bits a row
        In<Scale> scales;  // [outputs, columns / group]
        In<Scale> biases;  // [outputs, columns / group]
        In<float> add;     // [rows, outputs], or null
        Out<float> y;      // [rows, outputs]; may be `add`
        uint outputs, unused;
    };
    Part parts[multiply_parts];
    In<float> x;  // [rows, columns]
    uint count, rows, columns;
    uint group;  // 32, 64 or 128; divides columns
};

ENTRY(multiply_f32, MultiplyDense<float>)
ENTRY(multiply_f16, MultiplyDense<half>)
ENTRY(multiply_bf16, MultiplyDense<bfloat>)

#define AFFINE_ENTRIES(bits)                                  \
    ENTRY(multiply_affine##bits##_f32, MultiplyAffine<float>) \
    ENTRY(multiply_affine##bits##_f16, MultiplyAffine<half>)  \
    ENTRY(multiply_affine##bits##_bf16, MultiplyAffine<bfloat>)
AFFINE_ENTRIES(2)
AFFINE_ENTRIES(3)
AFFINE_ENTRIES(4)
AFFINE_ENTRIES(5)
AFFINE_ENTRIES(6)
AFFINE_ENTRIES(8)
#undef AFFINE_ENTRIES

}  // namespace kapitsa

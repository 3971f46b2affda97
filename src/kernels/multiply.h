// y = W x (+ add), for one to four matrices that share their x, format and width. The sums of a row are taken
// in one order whatever the number of rows, so a row's result does not depend on its company.
#pragma once

#include "kernels/affine_codes.h"
#include "kernels/multiply_body.h"

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
GRID_OF_ANY(T, MultiplyDense<T>, output_blocks(args), parts_of(args.rows, multiply_rows_at_once), 1,
            multiply_simdgroups * 32)

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
GRID_OF_ANY(Scale, MultiplyAffine<Scale>, output_blocks(args), parts_of(args.rows, multiply_rows_at_once), 1,
            multiply_simdgroups * 32)

#ifdef KERNEL_BODIES

template <typename T>
struct DenseForm {
    using Matrix = MultiplyDense<T>;
    static BODY void read(Args<Matrix> matrix, typename Matrix::Part part, uint output, uint column,
                          Local<float> w) {
        const In<T> weight = part.weight + ulong(output) * matrix.columns + column;
        UNROLL for (uint i = 0; i < multiply_span; ++i) w[i] =
            column + i < matrix.columns ? float(weight[i]) : 0.0f;
    }
};

template <uint bits, typename Scale>
struct AffineForm {
    using Matrix = MultiplyAffine<Scale>;
    static BODY void read(Args<Matrix> matrix, typename Matrix::Part part, uint output, uint column,
                          Local<float> w) {
        const In<uint> words = part.codes + ulong(output) * (matrix.columns / 32 * bits);
        const ulong group = ulong(output) * (matrix.columns / matrix.group) + column / matrix.group;
        const float scale = float(part.scales[group]), bias = float(part.biases[group]);
        UNROLL for (uint i = 0; i < multiply_span; ++i) w[i] =
            fma(scale, float(affine_code(words, bits, column + i)), bias);
    }
};

#endif

ENTRY(multiply_f32, multiply<DenseForm<float>>, MultiplyDense<float>, MultiplyScratch)
ENTRY(multiply_f16, multiply<DenseForm<half>>, MultiplyDense<half>, MultiplyScratch)
ENTRY(multiply_bf16, multiply<DenseForm<bfloat>>, MultiplyDense<bfloat>, MultiplyScratch)

// (The commas of a template's arguments would part those of the macro.)
#ifdef KERNEL_BODIES
#define AFFINE_BODY(bits, name, Scale)                                                               \
    BODY void name(Args<MultiplyAffine<Scale>> args, Position at, Shared<MultiplyScratch> scratch) { \
        multiply<AffineForm<bits, Scale>>(args, at, scratch);                                        \
    }
#else
#define AFFINE_BODY(bits, name, Scale)
#endif
#define AFFINE_ENTRIES(bits)                                                                       \
    AFFINE_BODY(bits, multiply_affine##bits##_of_float, float)                                     \
    AFFINE_BODY(bits, multiply_affine##bits##_of_half, half)                                       \
    AFFINE_BODY(bits, multiply_affine##bits##_of_bfloat, bfloat)                                   \
    ENTRY(multiply_affine##bits##_f32, multiply_affine##bits##_of_float, MultiplyAffine<float>,    \
          MultiplyScratch)                                                                         \
    ENTRY(multiply_affine##bits##_f16, multiply_affine##bits##_of_half, MultiplyAffine<half>,      \
          MultiplyScratch)                                                                         \
    ENTRY(multiply_affine##bits##_bf16, multiply_affine##bits##_of_bfloat, MultiplyAffine<bfloat>, \
          MultiplyScratch)
AFFINE_ENTRIES(2)
AFFINE_ENTRIES(3)
AFFINE_ENTRIES(4)
AFFINE_ENTRIES(5)
AFFINE_ENTRIES(6)
AFFINE_ENTRIES(8)
#undef AFFINE_ENTRIES
#undef AFFINE_BODY

}  // namespace kapitsa

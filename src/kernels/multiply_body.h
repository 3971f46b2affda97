// The matrix product of all weight formats, for devices with groups. A group makes four outputs of up to
// eight rows; its simdgroups share the columns, and what they have is added up in their order. Each row's
// sums are taken in that one order whatever the number of rows, and whatever the format: equal weights give
// equal bits. A format says how a lane reads eight neighbouring columns:
//
//     struct Form {
//         using Matrix = ...;                  // the argument struct
//         static BODY void read(Args<Matrix> matrix, typename Matrix::Part part, uint output, uint column,
//                               Local<float> w);     // w[multiply_span]; zero behind the last column
//     };
#pragma once

#include "kernels/experts.h"

namespace kapitsa {

constexpr uint multiply_outputs = 4, multiply_rows_at_once = 4, multiply_simdgroups = 4;  // of a group
constexpr uint multiply_span =
    8;  // columns that a lane takes at once; every block of several values is a multiple

#ifdef KERNEL_HOST
/// The blocks of outputs of all parts.
template <typename Matrix>
constexpr uint output_blocks(const Matrix& matrix) {
    uint blocks = 0;
    for (uint p = 0; p < matrix.count; ++p)
        blocks += (matrix.parts[p].outputs + multiply_outputs - 1) / multiply_outputs;
    return blocks;
}
#endif

#ifdef KERNEL_BODIES

struct MultiplyScratch {
    float sums[multiply_simdgroups][multiply_outputs][multiply_rows_at_once];
};

/// Outputs [first_output, + 4) of rows [first_row, + count).
template <class Form, uint rows>
BODY void multiply_tile(Args<typename Form::Matrix> matrix, typename Form::Matrix::Part part,
                        uint first_output, uint first_row, uint count, Position at,
                        Shared<MultiplyScratch> scratch) {
    constexpr uint span = multiply_span;
    float sums[multiply_outputs][rows];
    UNROLL for (uint o = 0; o < multiply_outputs; ++o) {
        UNROLL for (uint r = 0; r < rows; ++r) sums[o][r] = 0;
    }
    for (uint column = at.index * span; column < matrix.columns; column += multiply_simdgroups * 32 * span) {
        float x[rows][span];
        UNROLL for (uint r = 0; r < rows; ++r) {
            // Rows behind the last are the last once more, for nobody.
            const In<float> row = matrix.x + ulong(first_row + min(r, count - 1)) * matrix.columns + column;
            UNROLL for (uint i = 0; i < span; ++i) x[r][i] = column + i < matrix.columns ? row[i] : 0.0f;
        }
        UNROLL for (uint o = 0; o < multiply_outputs; ++o) {
            float w[span];
            Form::read(matrix, part, min(first_output + o, part.outputs - 1), column, w);
            UNROLL for (uint r = 0; r < rows; ++r) {
                UNROLL for (uint i = 0; i < span; ++i) sums[o][r] = fma(w[i], x[r][i], sums[o][r]);
            }
        }
    }
    group_barrier();  // the sums before have been read
    UNROLL for (uint o = 0; o < multiply_outputs; ++o) {
        UNROLL for (uint r = 0; r < rows; ++r) {
            if (r >= count) continue;
            const float sum = simd_sum(sums[o][r]);
            if (at.lane == 0) scratch.sums[at.simdgroup][o][r] = sum;
        }
    }
    group_barrier();
    const uint o = at.index % multiply_outputs, r = at.index / multiply_outputs, output = first_output + o;
    if (r >= count || output >= part.outputs) return;
    float total = 0;
    UNROLL for (uint s = 0; s < multiply_simdgroups; ++s) total += scratch.sums[s][o][r];
    const ulong place = ulong(first_row + r) * part.outputs + output;
    part.y[place] = part.add ? part.add[place] + total : total;
}

template <class Form>
BODY void multiply_some_rows(Args<typename Form::Matrix> matrix, typename Form::Matrix::Part part,
                             uint first_output, uint first_row, uint count, Position at,
                             Shared<MultiplyScratch> scratch) {
    if (count == 1)
        multiply_tile<Form, 1>(matrix, part, first_output, first_row, count, at, scratch);
    else
        multiply_tile<Form, multiply_rows_at_once>(matrix, part, first_output, first_row, count, at, scratch);
}

/// The part that a block of outputs belongs to, and the first output of the block in it.
struct OutputBlock {
    uint part, first_output;
};
template <typename Matrix>
BODY OutputBlock output_block(Args<Matrix> matrix, uint block) {
    uint part = 0;
    while (block * multiply_outputs >= matrix.parts[part].outputs) {
        block -= (matrix.parts[part].outputs + multiply_outputs - 1) / multiply_outputs;
        ++part;
    }
    return OutputBlock{part, block * multiply_outputs};
}

template <class Form>
BODY void multiply(Args<typename Form::Matrix> args, Position at, Shared<MultiplyScratch> scratch) {
    const OutputBlock block = output_block<typename Form::Matrix>(args, at.group.x);
    const uint first_row = at.group.y * multiply_rows_at_once;
    multiply_some_rows<Form>(args, args.parts[block.part], block.first_output, first_row,
                             min(args.rows - first_row, multiply_rows_at_once), at, scratch);
}

#endif

}  // namespace kapitsa

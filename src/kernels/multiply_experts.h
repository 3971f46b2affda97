// y = W_e x (+ add): the products of kernels/multiply.h, but each group of rows has matrices of its own,
// those of its expert. A row's sums are taken in the same order as there, so a row of a group has the bits of
// the plain product with that expert's matrix.
//
// Where each expert's weights lie is said by an array of Parts on the device: one tensor that holds all
// experts and a tensor for each serve alike, and none is copied.
#pragma once

#include "kernels/experts.h"
#include "kernels/multiply.h"

namespace kapitsa {

/// `Matrix` is the argument struct of the plain product: MultiplyDense<half>, ...
template <typename Matrix>
struct MultiplyExperts {
    Matrix matrix;  // as there, with the rows of all groups; the weights in its parts are not read
    In<typename Matrix::Part> experts[multiply_parts];  // [experts] each: their weights; nothing else is read
    In<ExpertGroup> groups;                             // [group_count] those with rows first
    uint group_count, unused;
};
GRID_OF_ANY(Matrix, MultiplyExperts<Matrix>, output_blocks(args.matrix), args.group_count, 1,
            multiply_simdgroups * 32)

#ifdef KERNEL_BODIES

/// A group has some outputs of one group of rows, and goes through its rows.
template <class Form>
BODY void multiply_experts(Args<MultiplyExperts<typename Form::Matrix>> args, Position at,
                           Shared<MultiplyScratch> scratch) {
    const ExpertGroup group = args.groups[at.group.y];
    const OutputBlock block = output_block<typename Form::Matrix>(args.matrix, at.group.x);
    typename Form::Matrix::Part part = args.experts[block.part][group.expert];  // where the weights are
    part.y = args.matrix.parts[block.part].y;
    part.add = args.matrix.parts[block.part].add;
    part.outputs = args.matrix.parts[block.part].outputs;
    for (uint first = 0; first < group.rows; first += multiply_rows_at_once)
        multiply_some_rows<Form>(args.matrix, part, block.first_output, group.first + first,
                                 min(group.rows - first, multiply_rows_at_once), at, scratch);
}

#endif

ENTRY(multiply_experts_f32, multiply_experts<DenseForm<float>>, MultiplyExperts<MultiplyDense<float>>,
      MultiplyScratch)
ENTRY(multiply_experts_f16, multiply_experts<DenseForm<half>>, MultiplyExperts<MultiplyDense<half>>,
      MultiplyScratch)
ENTRY(multiply_experts_bf16, multiply_experts<DenseForm<bfloat>>, MultiplyExperts<MultiplyDense<bfloat>>,
      MultiplyScratch)

#ifdef KERNEL_BODIES
#define AFFINE_BODY(bits, name, Scale)                                             \
    BODY void name(Args<MultiplyExperts<MultiplyAffine<Scale>>> args, Position at, \
                   Shared<MultiplyScratch> scratch) {                              \
        multiply_experts<AffineForm<bits, Scale>>(args, at, scratch);              \
    }
#else
#define AFFINE_BODY(bits, name, Scale)
#endif
#define AFFINE_ENTRIES(bits)                                                      \
    AFFINE_BODY(bits, experts_affine##bits##_of_float, float)                     \
    AFFINE_BODY(bits, experts_affine##bits##_of_half, half)                       \
    AFFINE_BODY(bits, experts_affine##bits##_of_bfloat, bfloat)                   \
    ENTRY(multiply_experts_affine##bits##_f32, experts_affine##bits##_of_float,   \
          MultiplyExperts<MultiplyAffine<float>>, MultiplyScratch)                \
    ENTRY(multiply_experts_affine##bits##_f16, experts_affine##bits##_of_half,    \
          MultiplyExperts<MultiplyAffine<half>>, MultiplyScratch)                 \
    ENTRY(multiply_experts_affine##bits##_bf16, experts_affine##bits##_of_bfloat, \
          MultiplyExperts<MultiplyAffine<bfloat>>, MultiplyScratch)
AFFINE_ENTRIES(2)
AFFINE_ENTRIES(3)
AFFINE_ENTRIES(4)
AFFINE_ENTRIES(5)
AFFINE_ENTRIES(6)
AFFINE_ENTRIES(8)
#undef AFFINE_ENTRIES
#undef AFFINE_BODY

}  // namespace kapitsa

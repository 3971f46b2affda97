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

ENTRY(multiply_experts_f32, MultiplyExperts<MultiplyDense<float>>)
ENTRY(multiply_experts_f16, MultiplyExperts<MultiplyDense<half>>)
ENTRY(multiply_experts_bf16, MultiplyExperts<MultiplyDense<bfloat>>)

#define AFFINE_ENTRIES(bits)                                                           \
    ENTRY(multiply_experts_affine##bits##_f32, MultiplyExperts<MultiplyAffine<float>>) \
    ENTRY(multiply_experts_affine##bits##_f16, MultiplyExperts<MultiplyAffine<half>>)  \
    ENTRY(multiply_experts_affine##bits##_bf16, MultiplyExperts<MultiplyAffine<bfloat>>)
AFFINE_ENTRIES(2)
AFFINE_ENTRIES(3)
AFFINE_ENTRIES(4)
AFFINE_ENTRIES(5)
AFFINE_ENTRIES(6)
AFFINE_ENTRIES(8)
#undef AFFINE_ENTRIES

}  // namespace kapitsa

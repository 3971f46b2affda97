// Which product a weight takes: the one place that knows the argument structs of its form.
#pragma once

#include <algorithm>
#include <array>

#include "kernels/blocks.h"
#include "model/recorder.h"
#include "model/weight.h"

namespace kapitsa {

/// The argument struct of a form's product, and the kernels that take it.
template <typename Args>
struct Product {
    Args args{};  // zero, but for what the form says
    Kernel<Args> plain;
    Kernel<MultiplyExperts<Args>> of_experts;
};

template <typename T>
void set_weight(const MultiplyDense<T>&, typename MultiplyDense<T>::Part& part, const Weight& weight) {
    part.weight = in<T>(weight.data);
}
template <typename S>
void set_weight(const MultiplyAffine<S>&, typename MultiplyAffine<S>::Part& part, const Weight& weight) {
    part.codes = in<uint>(weight.data);
    part.scales = in<S>(weight.scales);
    part.biases = in<S>(weight.biases);
}

inline void set_weight(const MultiplyBlocks&, MultiplyBlocks::Part& part, const Weight& weight) {
    part.blocks = in<uchar>(weight.data);
    part.scales = in<uchar>(weight.scales);
    part.factors = in<float>(weight.factors);
}

namespace products {

constexpr std::array<std::uint32_t, 6> affine_bits{2, 3, 4, 5, 6, 8};

template <typename Args>
struct Kernels {
    Kernel<Args> plain[affine_bits.size()];
    Kernel<MultiplyExperts<Args>> of_experts[affine_bits.size()];
};

#define AFFINE_KERNELS(Scale, suffix)                                                      \
    inline constexpr Kernels<MultiplyAffine<Scale>> affine_##suffix{                       \
        {multiply_affine2_##suffix, multiply_affine3_##suffix, multiply_affine4_##suffix,  \
         multiply_affine5_##suffix, multiply_affine6_##suffix, multiply_affine8_##suffix}, \
        {multiply_experts_affine2_##suffix, multiply_experts_affine3_##suffix,             \
         multiply_experts_affine4_##suffix, multiply_experts_affine5_##suffix,             \
         multiply_experts_affine6_##suffix, multiply_experts_affine8_##suffix}};
AFFINE_KERNELS(float, f32)
AFFINE_KERNELS(half, f16)
AFFINE_KERNELS(bfloat, bf16)
#undef AFFINE_KERNELS

template <typename Args>
Product<Args> affine(const Weight& weight, const Kernels<Args>& kernels) {
    const auto at = std::ranges::find(affine_bits, weight.bits);
    CHECK(at != affine_bits.end());
    Product<Args> product{
        {}, kernels.plain[at - affine_bits.begin()], kernels.of_experts[at - affine_bits.begin()]};
    product.args.group = weight.group;
    return product;
}

inline Product<MultiplyBlocks> blocks(const Weight& weight) {
    const auto form = std::size_t(weight.block_form);
    Product<MultiplyBlocks> product{{}, multiply_blocks[form], multiply_experts_blocks[form]};
    product.args.row_bytes = weight.row_bytes();
    product.args.scale_bytes = weight.scale_bytes();
    product.args.tile = weight.tile;
    return product;
}

}  // namespace products

/// Calls `then` with the Product of the weight's form.
template <typename Then>
void with_product(const Weight& weight, Then then) {
    using Form = Weight::Form;
    if (weight.form == Form::affine) {
        if (weight.scale_form == Form::f32) return then(products::affine(weight, products::affine_f32));
        if (weight.scale_form == Form::f16) return then(products::affine(weight, products::affine_f16));
        return then(products::affine(weight, products::affine_bf16));
    }
    switch (weight.form) {
        case Form::f32: return then(Product<MultiplyDense<float>>{{}, multiply_f32, multiply_experts_f32});
        case Form::f16: return then(Product<MultiplyDense<half>>{{}, multiply_f16, multiply_experts_f16});
        case Form::bf16:
            return then(Product<MultiplyDense<bfloat>>{{}, multiply_bf16, multiply_experts_bf16});
        case Form::blocks: return then(products::blocks(weight));
        case Form::affine: break;
    }
    CHECK(false && "a form that has a product");
}

}  // namespace kapitsa

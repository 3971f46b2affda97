// The native twin of kernels/elementwise.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/elementwise.cpp"
#include "hwy/foreach_target.h"  // compiles this file once an instruction set
// (after it)
#include "backend/cpu/native.h"
#include "backend/cpu/vectors-inl.h"
#include "kernels/elementwise.h"

HWY_BEFORE_NAMESPACE();
namespace kapitsa::cpu::HWY_NAMESPACE {

void swiglu_range(const SwiGlu& args, std::size_t begin, std::size_t end) {
    const F d;
    for (std::size_t i = begin; i < end; i += hn::Lanes(d)) {
        const std::size_t left = end - i;
        const auto gated = silu(load_first(d, args.gate + i, left));
        store_first(hn::Mul(gated, load_first(d, args.up + i, left)), d, args.y + i, left);
    }
}

void squared_relu_range(const SquaredRelu& args, std::size_t begin, std::size_t end) {
    const F d;
    for (std::size_t i = begin; i < end; i += hn::Lanes(d)) {
        const auto x = load_first(d, args.x + i, end - i);
        // Zero where x < 0, and not where x is no number: NaN must show.
        const auto kept = hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x);
        store_first(hn::Mul(kept, kept), d, args.y + i, end - i);
    }
}

void gelu_tanh_range(const Gelu& args, std::size_t begin, std::size_t end) {
    const F d;
    const auto slope = hn::Set(d, 1.59576912160573f), cubed = hn::Set(d, 0.044715f);  // 2 * sqrt(2 / pi)
    for (std::size_t i = begin; i < end; i += hn::Lanes(d)) {
        const auto x = load_first(d, args.x + i, end - i);
        const auto inner = hn::Mul(slope, hn::MulAdd(hn::Mul(cubed, hn::Mul(x, x)), x, x));
        // (1 + tanh(z)) / 2 is the logistic function of 2z.
        store_first(hn::Mul(x, sigmoid(inner)), d, args.y + i, end - i);
    }
}

void add_bias_rows(const AddBias& args, std::size_t first, std::size_t last) {
    const F d;
    for (std::size_t row = first; row < last; ++row) {
        float* x = args.x + row * args.columns;
        for (std::size_t i = 0; i < args.columns; i += hn::Lanes(d)) {
            const std::size_t left = args.columns - i;
            store_first(hn::Add(load_first(d, x + i, left), load_first(d, args.bias + i, left)), d, x + i,
                        left);
        }
    }
}

}  // namespace kapitsa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <cmath>
#include <cstring>

namespace kapitsa::cpu {

HWY_EXPORT(swiglu_range);
HWY_EXPORT(squared_relu_range);
HWY_EXPORT(gelu_tanh_range);
HWY_EXPORT(add_bias_rows);

namespace {

constexpr std::uint32_t block = 1024;  // elements of one unit; a whole number of vectors

template <typename Args>
std::uint32_t blocks_of(const Args& args) {
    return divide_up(args.elements, block);
}
void run_swiglu(const SwiGlu& args, std::uint32_t first, std::uint32_t last, Scratch&) {
    HWY_DYNAMIC_DISPATCH(swiglu_range)
    (args, std::size_t(first) * block, std::min(std::size_t(last) * block, std::size_t(args.elements)));
}
void run_squared_relu(const SquaredRelu& args, std::uint32_t first, std::uint32_t last, Scratch&) {
    HWY_DYNAMIC_DISPATCH(squared_relu_range)
    (args, std::size_t(first) * block, std::min(std::size_t(last) * block, std::size_t(args.elements)));
}
void run_gelu_tanh(const Gelu& args, std::uint32_t first, std::uint32_t last, Scratch&) {
    HWY_DYNAMIC_DISPATCH(gelu_tanh_range)
    (args, std::size_t(first) * block, std::min(std::size_t(last) * block, std::size_t(args.elements)));
}
void run_gelu_erf(const Gelu& args, std::uint32_t first, std::uint32_t last, Scratch&) {
    const std::size_t end = std::min(std::size_t(last) * block, std::size_t(args.elements));
    for (std::size_t i = std::size_t(first) * block; i < end; ++i)
        args.y[i] = 0.5f * args.x[i] * (1 + std::erf(args.x[i] * 0.70710678118655f));
}
void run_zero(const Zero& args, std::uint32_t first, std::uint32_t last, Scratch&) {
    const std::size_t begin = std::size_t(first) * block,
                      end = std::min(std::size_t(last) * block, std::size_t(args.elements));
    std::memset(args.y + begin, 0, (end - begin) * sizeof(float));
}
template <typename Args>
std::uint32_t rows_of(const Args& args) {
    return args.rows;
}
void run_bias(const AddBias& args, std::uint32_t first, std::uint32_t last, Scratch&) {
    HWY_DYNAMIC_DISPATCH(add_bias_rows)(args, first, last);
}
void run_scale(const ScaleColumns& args, std::uint32_t first, std::uint32_t last, Scratch&) {
    const std::size_t columns = args.columns;
    for (std::size_t row = first; row < last; ++row)
        for (std::size_t i = 0; i < columns; ++i)
            args.y[row * columns + i] = args.x[row * columns + i] * args.scale[i];
}
void run_copy(const CopyRows& args, std::uint32_t first, std::uint32_t last, Scratch&) {
    for (std::size_t row = first; row < last; ++row)
        std::memcpy(args.y + (args.to ? args.to[row] : row) * args.columns,
                    args.x + (args.from ? args.from[row] : row) * args.columns, args.columns * sizeof(float));
}
void run_join(const JoinRows& args, std::uint32_t first, std::uint32_t last, Scratch&) {
    const std::size_t left = args.left_columns, right = args.right_columns;
    for (std::size_t row = first; row < last; ++row) {
        float* y = args.y + row * (left + right);
        std::memcpy(y, args.left + row * left, left * sizeof(float));
        std::memcpy(y + left, args.right + row * right, right * sizeof(float));
    }
}

constexpr Native natives[] = {
    native<blocks_of<SwiGlu>, run_swiglu>(swiglu_f32),
    native<blocks_of<SquaredRelu>, run_squared_relu>(squared_relu_f32),
    native<blocks_of<Gelu>, run_gelu_erf>(gelu_erf_f32),
    native<blocks_of<Gelu>, run_gelu_tanh>(gelu_tanh_f32),
    native<rows_of<AddBias>, run_bias>(add_bias_f32),
    native<rows_of<ScaleColumns>, run_scale>(scale_columns_f32),
    native<rows_of<CopyRows>, run_copy>(copy_rows_f32),
    native<rows_of<JoinRows>, run_join>(join_rows_f32),
    native<blocks_of<Zero>, run_zero>(zero_f32),
};

}  // namespace

std::span<const Native> elementwise_natives() { return natives; }

}  // namespace kapitsa::cpu
#endif

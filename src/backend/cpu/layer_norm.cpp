// The native twin of kernels/layer_norm.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/layer_norm.cpp"
#include "hwy/foreach_target.h"  // compiles this file once an instruction set
// (after it)
#include <cmath>

#include "backend/cpu/native.h"
#include "backend/cpu/vectors-inl.h"
#include "kernels/layer_norm.h"

HWY_BEFORE_NAMESPACE();
namespace kapitsa::cpu::HWY_NAMESPACE {

void layer_norm_rows(const LayerNorm& args, std::uint32_t first, std::uint32_t last) {
    const F d;
    const std::size_t columns = args.columns;
    for (std::size_t row = first; row < last; ++row) {
        const float* x = args.x + row * columns;
        float* y = args.y + row * columns;
        auto total = hn::Zero(d);
        for (std::size_t i = 0; i < columns; i += hn::Lanes(d))
            total = hn::Add(total, load_first(d, x + i, columns - i));
        const auto mean = hn::Set(d, sum(total) / float(columns));
        for (std::size_t i = 0; i < columns; i += hn::Lanes(d))
            store_first(hn::Sub(load_first(d, x + i, columns - i), mean), d, y + i, columns - i);
        // Of what is left of x: the mean of squares minus the square of the mean would cancel.
        const auto scale = hn::Set(d, 1.0f / std::sqrt(dot(y, y, columns) / float(columns) + args.epsilon));
        for (std::size_t i = 0; i < columns; i += hn::Lanes(d)) {
            const std::size_t left = columns - i;
            const auto normed = hn::Mul(load_first(d, y + i, left), scale);
            store_first(
                hn::MulAdd(normed, load_first(d, args.weight + i, left), load_first(d, args.bias + i, left)),
                d, y + i, left);
        }
    }
}

}  // namespace kapitsa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kapitsa::cpu {

HWY_EXPORT(layer_norm_rows);

namespace {

std::uint32_t rows_of(const LayerNorm& args) { return args.rows; }
void run(const LayerNorm& args, std::uint32_t first, std::uint32_t last, Scratch&) {
    HWY_DYNAMIC_DISPATCH(layer_norm_rows)(args, first, last);
}

constexpr Native natives[] = {native<rows_of, run>(layer_norm_f32)};

}  // namespace

std::span<const Native> layer_norm_natives() { return natives; }

}  // namespace kapitsa::cpu
#endif

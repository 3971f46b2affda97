// The native twin of kernels/rms_norm.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/rms_norm.cpp"
#include "hwy/foreach_target.h"  // compiles this file once an instruction set
// (after it)
#include <cmath>

#include "backend/cpu/native.h"
#include "backend/cpu/vectors-inl.h"
#include "kernels/rms_norm.h"

HWY_BEFORE_NAMESPACE();
namespace kapitsa::cpu::HWY_NAMESPACE {

HWY_INLINE float inverse_rms(const float* x, std::size_t columns, float epsilon, bool wide) {
    return 1.0f / std::sqrt(sum_of_squares(x, columns, wide) / float(columns) + epsilon);
}

void rms_norm_rows(const RmsNorm& args, std::uint32_t first, std::uint32_t last, bool wide) {
    const F d;
    const std::size_t columns = args.columns;
    for (std::size_t row = first; row < last; ++row) {
        const float* x = args.x + (args.picked ? args.picked[row] : row) * columns;
        float* y = args.y + row * columns;
        const auto scale = hn::Set(d, inverse_rms(x, columns, args.epsilon, wide));
        for (std::size_t i = 0; i < columns; i += hn::Lanes(d)) {
            const auto v = hn::Mul(load_first(d, x + i, columns - i), scale);
            store_first(hn::Mul(v, load_first(d, args.weight + i, columns - i)), d, y + i, columns - i);
        }
    }
}

void gated_rms_norm_rows(const GatedRmsNorm& args, std::uint32_t first, std::uint32_t last, bool wide) {
    const F d;
    const std::size_t width = args.width;
    for (std::size_t row = first; row < last; ++row) {
        for (std::size_t head = 0; head < args.heads; ++head) {
            const std::size_t at = (row * args.heads + head) * width;
            const auto scale = hn::Set(d, inverse_rms(args.x + at, width, args.epsilon, wide));
            for (std::size_t i = 0; i < width; i += hn::Lanes(d)) {
                const std::size_t left = width - i;
                const auto normed = hn::Mul(hn::Mul(load_first(d, args.x + at + i, left), scale),
                                            load_first(d, args.weight + i, left));
                const auto gate = load_first(d, args.gate + at + i, left);
                store_first(hn::Mul(normed, args.sigmoid ? sigmoid(gate) : silu(gate)), d, args.y + at + i,
                            left);
            }
        }
    }
}

void norm_of_gated_rows(const NormOfGated& args, std::uint32_t first, std::uint32_t last, bool wide) {
    const F d;
    const std::size_t width = args.width;
    for (std::size_t row = first; row < last; ++row) {
        for (std::size_t group = 0; group < args.groups; ++group) {
            const std::size_t at = (row * args.groups + group) * width;
            float* y = args.y + at;
            for (std::size_t i = 0; i < width; i += hn::Lanes(d)) {
                const std::size_t left = width - i;
                store_first(hn::Mul(load_first(d, args.x + at + i, left),
                                    silu(load_first(d, args.gate + at + i, left))),
                            d, y + i, left);
            }
            const auto scale = hn::Set(d, inverse_rms(y, width, args.epsilon, wide));
            for (std::size_t i = 0; i < width; i += hn::Lanes(d)) {
                const std::size_t left = width - i;
                const auto normed = hn::Mul(load_first(d, y + i, left), scale);
                store_first(hn::Mul(normed, load_first(d, args.weight + group * width + i, left)), d, y + i,
                            left);
            }
        }
    }
}

}  // namespace kapitsa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kapitsa::cpu {

HWY_EXPORT(rms_norm_rows);
HWY_EXPORT(gated_rms_norm_rows);
HWY_EXPORT(norm_of_gated_rows);

namespace {

std::uint32_t rows_of(const RmsNorm& args) { return args.rows; }
std::uint32_t gated_rows_of(const GatedRmsNorm& args) { return args.rows; }
std::uint32_t rows_of_gated(const NormOfGated& args) { return args.rows; }
void run(const RmsNorm& args, std::uint32_t first, std::uint32_t last, Scratch& scratch) {
    HWY_DYNAMIC_DISPATCH(rms_norm_rows)(args, first, last, scratch.wide_sums());
}
void run_gated(const GatedRmsNorm& args, std::uint32_t first, std::uint32_t last, Scratch& scratch) {
    HWY_DYNAMIC_DISPATCH(gated_rms_norm_rows)(args, first, last, scratch.wide_sums());
}
void run_of_gated(const NormOfGated& args, std::uint32_t first, std::uint32_t last, Scratch& scratch) {
    HWY_DYNAMIC_DISPATCH(norm_of_gated_rows)(args, first, last, scratch.wide_sums());
}

constexpr Native natives[] = {
    native<rows_of, run>(rms_norm_f32),
    native<gated_rows_of, run_gated>(gated_rms_norm_f32),
    native<rows_of_gated, run_of_gated>(norm_of_gated_f32),
};

}  // namespace

std::span<const Native> rms_norm_natives() { return natives; }

}  // namespace kapitsa::cpu
#endif

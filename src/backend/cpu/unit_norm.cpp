// The native twin of kernels/unit_norm.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/unit_norm.cpp"
#include "hwy/foreach_target.h"  // compiles this file once an instruction set
// (after it)
#include <cmath>

#include "backend/cpu/native.h"
#include "backend/cpu/vectors-inl.h"
#include "kernels/unit_norm.h"

HWY_BEFORE_NAMESPACE();
namespace kapitsa::cpu::HWY_NAMESPACE {

/// What makes a unit vector of x.
HWY_INLINE FloatVec inverse_length(const float* x, std::size_t columns, float epsilon, bool wide) {
    return hn::Set(F(), 1.0f / std::sqrt(sum_of_squares(x, columns, wide) + epsilon));
}

/// y = unit(values), of which values(i, left) is the vector at column i, reading no more than `left` lanes.
/// An element is read before y gets it, and never again.
template <typename Values>
HWY_INLINE void unit_row(Values values, std::size_t columns, float epsilon, bool wide, float* y) {
    const F d;
    for (std::size_t i = 0; i < columns; i += hn::Lanes(d))
        store_first(values(i, columns - i), d, y + i, columns - i);
    const auto scale = inverse_length(y, columns, epsilon, wide);
    for (std::size_t i = 0; i < columns; i += hn::Lanes(d))
        store_first(hn::Mul(load_first(d, y + i, columns - i), scale), d, y + i, columns - i);
}

void unit_of_sum_rows(const UnitOfSum& args, std::uint32_t first, std::uint32_t last, bool wide) {
    const F d;
    for (std::size_t row = first; row < last; ++row) {
        const std::size_t at = row * args.columns;
        const auto sum_at = [&](std::size_t i, std::size_t left) {
            const auto a = load_first(d, args.a + at + i, left);
            return args.b ? hn::Add(a, load_first(d, args.b + at + i, left)) : a;
        };
        unit_row(sum_at, args.columns, args.epsilon, wide, args.y + at);
    }
}

void unit_step_rows(const UnitStep& args, std::uint32_t first, std::uint32_t last, bool wide) {
    const F d;
    for (std::size_t row = first; row < last; ++row) {
        const float *x = args.x + row * args.columns, *other = args.other + row * args.columns;
        const auto of_x = inverse_length(x, args.columns, args.epsilon, wide),
                   of_other = inverse_length(other, args.columns, args.epsilon, wide);
        const auto stepped = [&](std::size_t i, std::size_t left) {
            const auto a = hn::Mul(load_first(d, x + i, left), of_x);
            const auto b = hn::Mul(load_first(d, other + i, left), of_other);
            return hn::MulAdd(load_first(d, args.share + i, left), hn::Sub(b, a), a);
        };
        unit_row(stepped, args.columns, args.epsilon, wide, args.y + row * args.columns);
    }
}

void unit_swiglu_rows(const UnitSwiGlu& args, std::uint32_t first, std::uint32_t last, bool wide) {
    const F d;
    for (std::size_t row = first; row < last; ++row) {
        const std::size_t at = row * args.columns;
        const auto gated = [&](std::size_t i, std::size_t left) {
            const auto gate =
                hn::Mul(load_first(d, args.gate + at + i, left), load_first(d, args.gate_scale + i, left));
            const auto up =
                hn::Mul(load_first(d, args.up + at + i, left), load_first(d, args.up_scale + i, left));
            return hn::Mul(silu(gate), up);
        };
        unit_row(gated, args.columns, args.epsilon, wide, args.y + at);
    }
}

void unit_gated_rows(const UnitGated& args, std::uint32_t first, std::uint32_t last, bool wide) {
    const F d;
    for (std::size_t row = first; row < last; ++row) {
        const std::size_t at = row * args.columns;
        const auto gated = [&](std::size_t i, std::size_t left) {
            const auto gate =
                hn::Mul(load_first(d, args.gate + at + i, left), load_first(d, args.gate_scale + i, left));
            return hn::Mul(load_first(d, args.x + at + i, left), sigmoid(gate));
        };
        unit_row(gated, args.columns, args.epsilon, wide, args.y + at);
    }
}

}  // namespace kapitsa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kapitsa::cpu {

HWY_EXPORT(unit_of_sum_rows);
HWY_EXPORT(unit_step_rows);
HWY_EXPORT(unit_swiglu_rows);
HWY_EXPORT(unit_gated_rows);

namespace {

template <typename Args>
std::uint32_t rows_of(const Args& args) {
    return args.rows;
}
void run_sum(const UnitOfSum& args, std::uint32_t first, std::uint32_t last, Scratch& scratch) {
    HWY_DYNAMIC_DISPATCH(unit_of_sum_rows)(args, first, last, scratch.wide_sums());
}
void run_step(const UnitStep& args, std::uint32_t first, std::uint32_t last, Scratch& scratch) {
    HWY_DYNAMIC_DISPATCH(unit_step_rows)(args, first, last, scratch.wide_sums());
}
void run_swiglu(const UnitSwiGlu& args, std::uint32_t first, std::uint32_t last, Scratch& scratch) {
    HWY_DYNAMIC_DISPATCH(unit_swiglu_rows)(args, first, last, scratch.wide_sums());
}
void run_gated(const UnitGated& args, std::uint32_t first, std::uint32_t last, Scratch& scratch) {
    HWY_DYNAMIC_DISPATCH(unit_gated_rows)(args, first, last, scratch.wide_sums());
}

constexpr Native natives[] = {
    native<rows_of<UnitOfSum>, run_sum>(unit_of_sum_f32),
    native<rows_of<UnitStep>, run_step>(unit_step_f32),
    native<rows_of<UnitSwiGlu>, run_swiglu>(unit_swiglu_f32),
    native<rows_of<UnitGated>, run_gated>(unit_gated_f32),
};

}  // namespace

std::span<const Native> unit_norm_natives() { return natives; }

}  // namespace kapitsa::cpu
#endif

// What the native kernels need of Highway beyond its own words. Included once an instruction set.
#if defined(KAPITSA_VECTORS_INL_) == defined(HWY_TARGET_TOGGLE)
#ifdef KAPITSA_VECTORS_INL_
#undef KAPITSA_VECTORS_INL_
#else
#define KAPITSA_VECTORS_INL_
#endif

#include <cmath>
#include <cstddef>
#include <cstring>

#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace kapitsa::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F = hn::ScalableTag<float>;
using FloatVec = hn::Vec<F>;

/// The first `count` lanes from memory, the others zero; reads nothing beyond them.
template <class D, typename T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_first(D d, const T* from, std::size_t count) {
    if (count >= hn::Lanes(d)) return hn::LoadU(d, from);
    HWY_ALIGN T lanes[HWY_MAX_BYTES / sizeof(T)] = {};
    std::memcpy(lanes, from, count * sizeof(T));
    return hn::Load(d, lanes);
}

template <class D, typename T = hn::TFromD<D>>
HWY_INLINE void store_first(hn::Vec<D> v, D d, T* to, std::size_t count) {
    if (count >= hn::Lanes(d)) {
        hn::StoreU(v, d, to);
        return;
    }
    HWY_ALIGN T lanes[HWY_MAX_BYTES / sizeof(T)];
    hn::Store(v, d, lanes);
    std::memcpy(to, lanes, count * sizeof(T));
}

HWY_INLINE float sum(FloatVec v) { return hn::GetLane(hn::SumOfLanes(F(), v)); }

/// The sum of a[i] * b[i] in one accumulator, lane by lane in order.
HWY_INLINE float dot(const float* a, const float* b, std::size_t count) {
    const F d;
    auto total = hn::Zero(d);
    for (std::size_t i = 0; i < count; i += hn::Lanes(d))
        total = hn::MulAdd(load_first(d, a + i, count - i), load_first(d, b + i, count - i), total);
    return sum(total);
}

/// The same in f64, rounded once: a product of two f32 has no rounding there.
HWY_INLINE float wide_dot(const float* a, const float* b, std::size_t count) {
    const hn::ScalableTag<double> d;
    const hn::Rebind<float, decltype(d)> narrow;
    auto total = hn::Zero(d);
    for (std::size_t i = 0; i < count; i += hn::Lanes(d))
        total = hn::MulAdd(hn::PromoteTo(d, load_first(narrow, a + i, count - i)),
                           hn::PromoteTo(d, load_first(narrow, b + i, count - i)), total);
    return float(hn::GetLane(hn::SumOfLanes(d, total)));
}

HWY_INLINE float sum_of_squares(const float* x, std::size_t count, bool wide) {
    return wide ? wide_dot(x, x, count) : dot(x, x, count);
}

HWY_INLINE FloatVec sigmoid(FloatVec x) {
    const F d;
    // Exp is good up to 104, where it is infinite already. Far beyond, its exponent wraps around.
    const auto opposite = hn::Min(hn::Neg(x), hn::Set(d, 104.0f));
    return hn::Div(hn::Set(d, 1.0f), hn::Add(hn::Set(d, 1.0f), hn::Exp(d, opposite)));
}

HWY_INLINE float softplus(float x) { return x > 20.0f ? x : std::log1p(std::exp(x)); }

HWY_INLINE FloatVec silu(FloatVec x) { return hn::Mul(x, sigmoid(x)); }

}  // namespace kapitsa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

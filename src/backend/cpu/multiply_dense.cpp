// The native twin of kernels/multiply.h for weights stored as f32, f16 and bf16.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/multiply_dense.cpp"
#include "hwy/foreach_target.h"  // compiles this file once an instruction set
// (after it)
#include "backend/cpu/multiply_rows-inl.h"
#include "kernels/multiply.h"

HWY_BEFORE_NAMESPACE();
namespace kapitsa::cpu::HWY_NAMESPACE {

// How Highway names the storage types of the dialect.
template <typename T>
struct Stored;
template <>
struct Stored<float> {
    using type = float;
};
template <>
struct Stored<half> {
    using type = hwy::float16_t;
};
template <>
struct Stored<bfloat> {
    using type = hwy::bfloat16_t;
};

template <typename T>
class DenseWeights {
public:
    DenseWeights(const typename MultiplyDense<T>::Part& part, const MultiplyDense<T>& args, float*)
        : weight_(part.weight), columns_(args.columns) {}
    static std::size_t floats(const MultiplyDense<T>&) { return 0; }

    void unpack(std::size_t output, float* to) const {
        const F d;
        const T* row = weight_ + output * columns_;
        for (std::size_t i = 0; i < columns_; i += hn::Lanes(d))
            store_first(load(row + i, columns_ - i), d, to + i, columns_ - i);
    }

    template <std::size_t outputs, std::size_t rows>
    HWY_INLINE void stream(std::size_t first, const float* x, float (&totals)[outputs][rows]) const {
        const F d;
        FloatVec sums[outputs][rows];
        for (auto& of_output : sums)
            for (auto& s : of_output) s = hn::Zero(d);
        const T* row[outputs];
        for (std::size_t o = 0; o < outputs; ++o) row[o] = weight_ + (first + o) * columns_;

        for (std::size_t i = 0; i < columns_; i += hn::Lanes(d)) {
            const std::size_t left = columns_ - i;
            FloatVec xs[rows];
            for (std::size_t r = 0; r < rows; ++r) xs[r] = load_first(d, x + r * columns_ + i, left);
            for (std::size_t o = 0; o < outputs; ++o) {
                const auto w = load(row[o] + i, left);
                for (std::size_t r = 0; r < rows; ++r) sums[o][r] = hn::MulAdd(xs[r], w, sums[o][r]);
            }
        }
        for (std::size_t o = 0; o < outputs; ++o)
            for (std::size_t r = 0; r < rows; ++r) totals[o][r] = sum(sums[o][r]);
    }

private:
    static HWY_INLINE FloatVec load(const T* from, std::size_t count) {
        const F d;
        if constexpr (std::is_same_v<T, float>) {
            return load_first(d, from, count);
        } else {
            using S = typename Stored<T>::type;
            const hn::Rebind<S, F> narrow;
            return hn::PromoteTo(d, load_first(narrow, reinterpret_cast<const S*>(from), count));
        }
    }

    const T* weight_;
    std::size_t columns_;
};

void multiply_f32_blocks(const MultiplyDense<float>& args, std::uint32_t first, std::uint32_t last,
                         Scratch& scratch) {
    multiply_blocks<DenseWeights<float>>(args, first, last, scratch);
}
void multiply_f16_blocks(const MultiplyDense<half>& args, std::uint32_t first, std::uint32_t last,
                         Scratch& scratch) {
    multiply_blocks<DenseWeights<half>>(args, first, last, scratch);
}
void multiply_bf16_blocks(const MultiplyDense<bfloat>& args, std::uint32_t first, std::uint32_t last,
                          Scratch& scratch) {
    multiply_blocks<DenseWeights<bfloat>>(args, first, last, scratch);
}

void multiply_experts_f32_blocks(const MultiplyExperts<MultiplyDense<float>>& args, std::uint32_t first,
                                 std::uint32_t last, Scratch& scratch) {
    multiply_expert_blocks<DenseWeights<float>>(args, args.matrix, first, last, scratch);
}
void multiply_experts_f16_blocks(const MultiplyExperts<MultiplyDense<half>>& args, std::uint32_t first,
                                 std::uint32_t last, Scratch& scratch) {
    multiply_expert_blocks<DenseWeights<half>>(args, args.matrix, first, last, scratch);
}
void multiply_experts_bf16_blocks(const MultiplyExperts<MultiplyDense<bfloat>>& args, std::uint32_t first,
                                  std::uint32_t last, Scratch& scratch) {
    multiply_expert_blocks<DenseWeights<bfloat>>(args, args.matrix, first, last, scratch);
}

}  // namespace kapitsa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kapitsa::cpu {

HWY_EXPORT(multiply_f32_blocks);
HWY_EXPORT(multiply_f16_blocks);
HWY_EXPORT(multiply_bf16_blocks);
HWY_EXPORT(multiply_experts_f32_blocks);
HWY_EXPORT(multiply_experts_f16_blocks);
HWY_EXPORT(multiply_experts_bf16_blocks);

namespace {

#define DENSE_RUNS(type, T)                                                                     \
    void run_##type(const MultiplyDense<T>& args, std::uint32_t first, std::uint32_t last,      \
                    Scratch& scratch) {                                                         \
        HWY_DYNAMIC_DISPATCH(multiply_##type##_blocks)(args, first, last, scratch);             \
    }                                                                                           \
    void run_experts_##type(const MultiplyExperts<MultiplyDense<T>>& args, std::uint32_t first, \
                            std::uint32_t last, Scratch& scratch) {                             \
        HWY_DYNAMIC_DISPATCH(multiply_experts_##type##_blocks)(args, first, last, scratch);     \
    }
DENSE_RUNS(f32, float)
DENSE_RUNS(f16, half)
DENSE_RUNS(bf16, bfloat)
#undef DENSE_RUNS

#define DENSE_NATIVES(type, T)                                                                \
    native<multiply_units<MultiplyDense<T>>, run_##type>(multiply_##type),                    \
        native<multiply_expert_units<MultiplyExperts<MultiplyDense<T>>>, run_experts_##type>( \
            multiply_experts_##type)
constexpr Native natives[] = {DENSE_NATIVES(f32, float), DENSE_NATIVES(f16, half),
                              DENSE_NATIVES(bf16, bfloat)};
#undef DENSE_NATIVES

}  // namespace

std::span<const Native> multiply_dense_natives() { return natives; }

}  // namespace kapitsa::cpu
#endif

// The native twin of kernels/multiply.h for MLX affine weights: w = scale * q + bias, 2 to 8 bits.
//
// Codes are unpacked 32 at a time, which is always `bits` whole words. Scales and biases of a row become f32
// first, whatever they are stored as. The unpacked weight is rounded to f32 once (a fused multiply-add), in
// both paths.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/multiply_affine.cpp"
#include "hwy/foreach_target.h"  // compiles this file once an instruction set
// (after it)
#include "backend/cpu/affine-inl.h"
#include "backend/cpu/multiply_rows-inl.h"
#include "base/check.h"
#include "kernels/multiply.h"

HWY_BEFORE_NAMESPACE();
namespace kapitsa::cpu::HWY_NAMESPACE {

/// What scales and biases are stored as: looked at once a row, so that it need not multiply the code below by
/// three.
enum class Scales { f32, f16, bf16 };
struct Untyped;

struct AnyAffine : MultiplyAffine<Untyped> {
    Scales stored;
};

template <std::uint32_t bits>
class AffineWeights {
public:
    using Args = AnyAffine;

    AffineWeights(const Args::Part& part, const Args& args, float* room)
        : part_(part),
          stored_(args.stored),
          columns_(args.columns),
          group_(args.group),
          groups_(columns_ / group_),
          codes_end_(part.codes + std::size_t(part.outputs) * (columns_ / 32) * bits),
          scales_(room),
          biases_(room + stream_outputs * groups_) {}
    static std::size_t floats(const Args& args) { return 2 * stream_outputs * (args.columns / args.group); }

    void unpack(std::size_t output, float* to) const {
        const F d;
        const std::uint32_t* codes = codes_of(output);
        const Unpacker<bits> unpacker;
        widen_scales(output, 1);
        for (std::size_t g = 0; g < groups_; ++g) {
            const Group<bits> group(scales_[g], biases_[g]);
            for (std::size_t i = 0; i < group_; i += 32, codes += bits) {
                const auto words = unpacker.load(codes, codes_end_);
                for (std::size_t c = 0; c < 32; c += hn::Lanes(d), to += hn::Lanes(d))
                    hn::StoreU(group.weights(unpacker.codes(words, codes, c / hn::Lanes(d))), d, to);
            }
        }
    }

    template <std::size_t outputs, std::size_t rows>
    HWY_INLINE void stream(std::size_t first, const float* x, float (&totals)[outputs][rows]) const {
        const F d;
        const std::size_t row_words = columns_ / 32 * bits;
        FloatVec sums[outputs][rows];
        for (auto& of_output : sums)
            for (auto& s : of_output) s = hn::Zero(d);

        const Unpacker<bits> unpacker;
        const std::uint32_t* codes = codes_of(first);
        widen_scales(first, outputs);
        for (std::size_t g = 0; g < groups_; ++g) {
            for (std::size_t i = 0; i < group_; i += 32, codes += bits, x += 32) {
                for (std::size_t o = 0; o < outputs; ++o) {  // short and straight: the sums stay in registers
                    const Group<bits> group(scales_[o * groups_ + g], biases_[o * groups_ + g]);
                    const auto words = unpacker.load(codes + o * row_words, codes_end_);
                    for (std::size_t c = 0; c < 32 / hn::Lanes(d); ++c) {
                        const auto w = group.weights(unpacker.codes(words, codes + o * row_words, c));
                        for (std::size_t r = 0; r < rows; ++r)
                            sums[o][r] =
                                hn::MulAdd(hn::LoadU(d, x + r * columns_ + c * hn::Lanes(d)), w, sums[o][r]);
                    }
                }
            }
        }
        for (std::size_t o = 0; o < outputs; ++o)
            for (std::size_t r = 0; r < rows; ++r) totals[o][r] = sum(sums[o][r]);
    }

private:
    const std::uint32_t* codes_of(std::size_t output) const {
        return part_.codes + output * (columns_ / 32) * bits;
    }

    /// The scales and biases of neighbouring outputs, which lie one behind the other, as floats in the room.
    HWY_INLINE void widen_scales(std::size_t first, std::size_t outputs) const {
        switch (stored_) {
            case Scales::f32: return widen_both<float>(first, outputs);
            case Scales::f16: return widen_both<half>(first, outputs);
            case Scales::bf16: return widen_both<bfloat>(first, outputs);
        }
    }
    template <typename Scale>
    HWY_INLINE void widen_both(std::size_t first, std::size_t outputs) const {
        const auto widen_one = [&](In<Untyped> from, float* to) {
            widen(reinterpret_cast<In<Scale>>(from) + first * groups_, outputs * groups_, to);
        };
        widen_one(part_.scales, scales_);
        widen_one(part_.biases, biases_);
    }

    const Args::Part& part_;
    Scales stored_;
    std::size_t columns_, group_, groups_;
    const std::uint32_t* codes_end_;
    float *scales_, *biases_;  // [stream_outputs, groups]
};

using UntypedAffine = MultiplyAffine<Untyped>;
using UntypedExperts = MultiplyExperts<UntypedAffine>;

AnyAffine any_of(const UntypedAffine& args, int scales) {
    AnyAffine any;
    static_cast<UntypedAffine&>(any) = args;
    any.stored = static_cast<Scales>(scales);
    return any;
}

template <std::uint32_t bits>
void multiply_affine_blocks(const UntypedAffine& args, int scales, std::uint32_t first, std::uint32_t last,
                            Scratch& scratch) {
    multiply_blocks<AffineWeights<bits>>(any_of(args, scales), first, last, scratch);
}
template <std::uint32_t bits>
void multiply_affine_blocks(const UntypedExperts& args, int scales, std::uint32_t first, std::uint32_t last,
                            Scratch& scratch) {
    multiply_expert_blocks<AffineWeights<bits>>(args, any_of(args.matrix, scales), first, last, scratch);
}

/// `args` is an `Args` of the scales named; its layout is the same for all of them.
template <class Args>
void multiply_affine_any(std::uint32_t bits, int scales, const void* args, std::uint32_t first,
                         std::uint32_t last, Scratch& scratch) {
    Args any;
    std::memcpy(&any, args, sizeof any);
    switch (bits) {
        case 2: return multiply_affine_blocks<2>(any, scales, first, last, scratch);
        case 3: return multiply_affine_blocks<3>(any, scales, first, last, scratch);
        case 4: return multiply_affine_blocks<4>(any, scales, first, last, scratch);
        case 5: return multiply_affine_blocks<5>(any, scales, first, last, scratch);
        case 6: return multiply_affine_blocks<6>(any, scales, first, last, scratch);
        default: CHECK(bits == 8); return multiply_affine_blocks<8>(any, scales, first, last, scratch);
    }
}

void multiply_affine_of(std::uint32_t bits, int scales, const void* args, std::uint32_t first,
                        std::uint32_t last, Scratch& scratch) {
    multiply_affine_any<UntypedAffine>(bits, scales, args, first, last, scratch);
}
void multiply_experts_affine_of(std::uint32_t bits, int scales, const void* args, std::uint32_t first,
                                std::uint32_t last, Scratch& scratch) {
    multiply_affine_any<UntypedExperts>(bits, scales, args, first, last, scratch);
}

}  // namespace kapitsa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kapitsa::cpu {

HWY_EXPORT(multiply_affine_of);
HWY_EXPORT(multiply_experts_affine_of);

namespace {

template <std::uint32_t bits, int scales, typename Args>
void run(const Args& args, std::uint32_t first, std::uint32_t last, Scratch& scratch) {
    HWY_DYNAMIC_DISPATCH(multiply_affine_of)(bits, scales, &args, first, last, scratch);
}
template <std::uint32_t bits, int scales, typename Args>
void run_experts(const Args& args, std::uint32_t first, std::uint32_t last, Scratch& scratch) {
    HWY_DYNAMIC_DISPATCH(multiply_experts_affine_of)(bits, scales, &args, first, last, scratch);
}

template <std::uint32_t bits, int scales, typename Scale>
constexpr Native native_of(Kernel<MultiplyAffine<Scale>> kernel) {
    using Args = MultiplyAffine<Scale>;
    return native<multiply_units<Args>, run<bits, scales, Args>>(kernel);
}
template <std::uint32_t bits, int scales, typename Scale>
constexpr Native native_of(Kernel<MultiplyExperts<MultiplyAffine<Scale>>> kernel) {
    using Args = MultiplyExperts<MultiplyAffine<Scale>>;
    return native<multiply_expert_units<Args>, run_experts<bits, scales, Args>>(kernel);
}

#define NATIVES_OF(entry, bits) \
    native_of<bits, 0>(entry##_f32), native_of<bits, 1>(entry##_f16), native_of<bits, 2>(entry##_bf16)
#define AFFINE_NATIVES(bits) \
    NATIVES_OF(multiply_affine##bits, bits), NATIVES_OF(multiply_experts_affine##bits, bits)
constexpr Native natives[] = {AFFINE_NATIVES(2), AFFINE_NATIVES(3), AFFINE_NATIVES(4),
                              AFFINE_NATIVES(5), AFFINE_NATIVES(6), AFFINE_NATIVES(8)};
#undef AFFINE_NATIVES
#undef NATIVES_OF

}  // namespace

std::span<const Native> multiply_affine_natives() { return natives; }

}  // namespace kapitsa::cpu
#endif

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
#include "kernels/multiply.h"

HWY_BEFORE_NAMESPACE();
namespace kapitsa::cpu::HWY_NAMESPACE {

template <std::uint32_t bits, typename Scale>
class AffineWeights {
public:
    using Args = MultiplyAffine<Scale>;

    AffineWeights(const typename Args::Part& part, const Args& args, float* room)
        : part_(part),
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
        widen(part_.scales + first * groups_, outputs * groups_, scales_);
        widen(part_.biases + first * groups_, outputs * groups_, biases_);
    }

    const typename Args::Part& part_;
    std::size_t columns_, group_, groups_;
    const std::uint32_t* codes_end_;
    float *scales_, *biases_;  // [stream_outputs, groups]
};

#define AFFINE_BLOCKS(bits, Scale, suffix)                                                                   \
    void affine##bits##_##suffix(const MultiplyAffine<Scale>& args, std::uint32_t first, std::uint32_t last, \
                                 Scratch& scratch) {                                                         \
        multiply_blocks<AffineWeights<bits, Scale>>(args, first, last, scratch);                             \
    }
#define AFFINE_BLOCKS_OF(bits)      \
    AFFINE_BLOCKS(bits, float, f32) \
    AFFINE_BLOCKS(bits, half, f16)  \
    AFFINE_BLOCKS(bits, bfloat, bf16)
AFFINE_BLOCKS_OF(2)
AFFINE_BLOCKS_OF(3)
AFFINE_BLOCKS_OF(4)
AFFINE_BLOCKS_OF(5)
AFFINE_BLOCKS_OF(6)
AFFINE_BLOCKS_OF(8)

}  // namespace kapitsa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kapitsa::cpu {

#define AFFINE_EXPORT(bits, Scale, suffix)                                                          \
    HWY_EXPORT(affine##bits##_##suffix);                                                            \
    static void run_affine##bits##_##suffix(const MultiplyAffine<Scale>& args, std::uint32_t first, \
                                            std::uint32_t last, Scratch& scratch) {                 \
        HWY_DYNAMIC_DISPATCH(affine##bits##_##suffix)(args, first, last, scratch);                  \
    }
#define AFFINE_EXPORTS_OF(bits)     \
    AFFINE_EXPORT(bits, float, f32) \
    AFFINE_EXPORT(bits, half, f16)  \
    AFFINE_EXPORT(bits, bfloat, bf16)
AFFINE_EXPORTS_OF(2)
AFFINE_EXPORTS_OF(3)
AFFINE_EXPORTS_OF(4)
AFFINE_EXPORTS_OF(5)
AFFINE_EXPORTS_OF(6)
AFFINE_EXPORTS_OF(8)

#define AFFINE_NATIVES_OF(bits)                                                                            \
    native<multiply_units<MultiplyAffine<float>>, run_affine##bits##_f32>(multiply_affine##bits##_f32),    \
        native<multiply_units<MultiplyAffine<half>>, run_affine##bits##_f16>(multiply_affine##bits##_f16), \
        native<multiply_units<MultiplyAffine<bfloat>>, run_affine##bits##_bf16>(                           \
            multiply_affine##bits##_bf16)

std::span<const Native> multiply_affine_natives() {
    static constexpr Native natives[] = {AFFINE_NATIVES_OF(2), AFFINE_NATIVES_OF(3), AFFINE_NATIVES_OF(4),
                                         AFFINE_NATIVES_OF(5), AFFINE_NATIVES_OF(6), AFFINE_NATIVES_OF(8)};
    return natives;
}

}  // namespace kapitsa::cpu
#endif

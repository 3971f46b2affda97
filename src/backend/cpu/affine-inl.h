// MLX affine codes to lanes. Codes are one little-endian stream of bits a row; 32 of them are `bits` whole
// words. Source: the packing of MLX's quantize(), checked against its extraction formulas by tests/golden.
#if defined(KAPITSA_AFFINE_INL_) == defined(HWY_TARGET_TOGGLE)
#ifdef KAPITSA_AFFINE_INL_
#undef KAPITSA_AFFINE_INL_
#else
#define KAPITSA_AFFINE_INL_
#endif

#include "backend/cpu/vectors-inl.h"
#include "kernels/dialect/host.h"

HWY_BEFORE_NAMESPACE();
namespace kapitsa::cpu::HWY_NAMESPACE {

using U = hn::Repartition<std::uint32_t, F>;
using WordVec = hn::Vec<U>;

/// Unpacks blocks of 32 codes, Lanes(F) at a time.
template <std::uint32_t bits>
class Unpacker {
    static constexpr std::uint32_t mask = (1u << bits) - 1;

public:
#if HWY_MAX_BYTES >= 32 && HWY_TARGET != HWY_SCALAR  // 8 or 16 lanes: a block of words fits one vector
    Unpacker() {
        const U u;
        constexpr std::size_t lanes = HWY_MAX_BYTES / 4;
        for (std::size_t c = 0; c < 32 / lanes; ++c) {
            HWY_ALIGN std::int32_t low[lanes], high[lanes];
            HWY_ALIGN std::uint32_t shift[lanes];
            for (std::size_t i = 0; i < lanes; ++i) {
                const std::uint32_t bit = std::uint32_t(c * lanes + i) * bits;
                low[i] = std::int32_t(bit / 32);
                high[i] = std::int32_t(HWY_MIN(bit / 32 + 1, bits - 1));
                shift[i] = bit % 32;
            }
            low_[c] = hn::IndicesFromVec(u, hn::Load(hn::RebindToSigned<U>(), low));
            shift_[c] = hn::Load(u, shift);
            if constexpr (straddles) {
                high_[c] = hn::IndicesFromVec(u, hn::Load(hn::RebindToSigned<U>(), high));
                rest_[c] = hn::Sub(hn::Set(u, 31), shift_[c]);
            }
        }
    }

    HWY_INLINE WordVec load(const std::uint32_t* words) const {
        const U u;
        return hn::MaskedLoad(hn::FirstN(u, bits), u, words);
    }

    HWY_INLINE FloatVec codes(WordVec words, const std::uint32_t*, std::size_t c) const {
        const U u;
        auto code = hn::Shr(hn::TableLookupLanes(words, low_[c]), shift_[c]);
        if constexpr (straddles) {  // the upper part: shifted by 32 - shift, in two steps since that may be
                                    // 32
            const auto above = hn::ShiftLeft<1>(hn::Shl(hn::TableLookupLanes(words, high_[c]), rest_[c]));
            code = hn::Or(code, above);
        }
        code = hn::And(code, hn::Set(u, mask));
        return hn::ConvertTo(F(), hn::BitCast(hn::RebindToSigned<U>(), code));
    }

private:
    static constexpr bool straddles = 32 % bits != 0;
    static constexpr std::size_t chunks = 128 / HWY_MAX_BYTES;
    using Indices = decltype(hn::IndicesFromVec(U(), hn::Zero(hn::RebindToSigned<U>())));
    Indices low_[chunks], high_[chunks];
    WordVec shift_[chunks], rest_[chunks];
#else  // 4 lanes (or 1): their codes lie within 32 bits
    HWY_INLINE WordVec load(const std::uint32_t*) const { return hn::Zero(U()); }

    HWY_INLINE FloatVec codes(WordVec, const std::uint32_t* words, std::size_t c) const {
        const U u;
        const std::size_t lanes = hn::Lanes(u), bit = c * lanes * bits, word = bit / 32;
        const std::uint64_t window =
            words[word] | (word + 1 < bits ? std::uint64_t(words[word + 1]) << 32 : 0);
        const auto these = hn::Set(u, std::uint32_t(window >> (bit % 32)));
        const auto code =
            hn::And(hn::Shr(these, hn::Mul(hn::Iota(u, 0), hn::Set(u, bits))), hn::Set(u, mask));
        return hn::ConvertTo(F(), hn::BitCast(hn::RebindToSigned<U>(), code));
    }
#endif
};

/// Stored scales as floats.
HWY_INLINE void widen(const float* from, std::size_t count, float* to) {
    std::memcpy(to, from, count * sizeof(float));
}

template <typename S>
HWY_INLINE void widen_stored(const S* from, std::size_t count, float* to) {
    const F d;
    const hn::Rebind<S, F> narrow;
    for (std::size_t i = 0; i < count; i += hn::Lanes(d))
        store_first(hn::PromoteTo(d, load_first(narrow, from + i, count - i)), d, to + i, count - i);
}
HWY_INLINE void widen(const half* from, std::size_t count, float* to) {
    widen_stored(reinterpret_cast<const hwy::float16_t*>(from), count, to);
}
HWY_INLINE void widen(const bfloat* from, std::size_t count, float* to) {
    widen_stored(reinterpret_cast<const hwy::bfloat16_t*>(from), count, to);
}

}  // namespace kapitsa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

// MLX affine codes to lanes. Codes are one little-endian stream of bits a row; 32 of them are `bits` whole
// words. Source: the packing of MLX's quantize(), checked against its extraction formulas by tests/golden.
#if defined(KAPITSA_AFFINE_INL_) == defined(HWY_TARGET_TOGGLE)
#ifdef KAPITSA_AFFINE_INL_
#undef KAPITSA_AFFINE_INL_
#else
#define KAPITSA_AFFINE_INL_
#endif

#include "backend/cpu/vectors-inl.h"
#include "base/float16.h"
#include "kernels/dialect/host.h"

HWY_BEFORE_NAMESPACE();
namespace kapitsa::cpu::HWY_NAMESPACE {

using U = hn::Repartition<std::uint32_t, F>;
using WordVec = hn::Vec<U>;

// With 16 lanes, all 16 weights that 4 bits can say fit one vector: a code is its index.
#if HWY_MAX_BYTES >= 64
template <std::uint32_t bits>
constexpr bool by_table = bits == 4;
#else
template <std::uint32_t bits>
constexpr bool by_table = false;
#endif

/// What turns the codes of one group into weights, scale * code + bias rounded once.
template <std::uint32_t bits>
class Group {
public:
    HWY_INLINE Group(float scale, float bias) : scale_(hn::Set(F(), scale)), bias_(hn::Set(F(), bias)) {
        if constexpr (by_table<bits>) bias_ = hn::MulAdd(hn::Iota(F(), 0.0f), scale_, bias_);
    }
    HWY_INLINE FloatVec weights(WordVec codes) const {
        const auto index = hn::BitCast(hn::RebindToSigned<U>(), codes);
        if constexpr (by_table<bits>)
            return hn::TableLookupLanes(bias_, hn::IndicesFromVec(F(), index));
        else
            return hn::MulAdd(hn::ConvertTo(F(), index), scale_, bias_);
    }

private:
    FloatVec scale_, bias_;  // by table, `bias_` is the table
};

/// Unpacks blocks of 32 codes, Lanes(F) at a time.
template <std::uint32_t bits>
class Unpacker {
    static constexpr std::uint32_t mask = (1u << bits) - 1;
    // A table looks at the lowest bits alone. (Highway checks indices when it is built for debugging.)
    static constexpr bool must_mask = !by_table<bits> || HWY_IS_DEBUG_BUILD;

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

    /// The block's words; what lies behind them, up to `end`, may be read as well. (A masked load would be
    /// the obvious way, and costs several times as much on some processors.)
    HWY_INLINE WordVec load(const std::uint32_t* words, const std::uint32_t* end) const {
        const U u;
        if constexpr (bits == 4)
            return hn::LoadDup128(u, words);
        else
            return load_first(u, words, HWY_MIN(std::size_t(end - words), hn::Lanes(u)));
    }

    HWY_INLINE WordVec codes(WordVec words, const std::uint32_t*, std::size_t c) const {
        const U u;
        auto code = hn::Shr(hn::TableLookupLanes(words, low_[c]), shift_[c]);
        if constexpr (straddles) {  // the upper part: shifted by 32 - shift, in two steps since that may be
                                    // 32
            const auto above = hn::ShiftLeft<1>(hn::Shl(hn::TableLookupLanes(words, high_[c]), rest_[c]));
            code = hn::Or(code, above);
        }
        return must_mask ? hn::And(code, hn::Set(u, mask)) : code;
    }

private:
    static constexpr bool straddles = 32 % bits != 0;
    static constexpr std::size_t chunks = 128 / HWY_MAX_BYTES;
    using Indices = decltype(hn::IndicesFromVec(U(), hn::Zero(hn::RebindToSigned<U>())));
    Indices low_[chunks], high_[chunks];
    WordVec shift_[chunks], rest_[chunks];
#else  // 4 lanes (or 1): their codes lie within 32 bits
    HWY_INLINE WordVec load(const std::uint32_t*, const std::uint32_t*) const { return hn::Zero(U()); }

    HWY_INLINE WordVec codes(WordVec, const std::uint32_t* words, std::size_t c) const {
        const U u;
        const std::size_t lanes = hn::Lanes(u), bit = c * lanes * bits, word = bit / 32;
        const std::uint64_t window =
            words[word] | (word + 1 < bits ? std::uint64_t(words[word + 1]) << 32 : 0);
        const auto these = hn::Set(u, std::uint32_t(window >> (bit % 32)));
        return hn::And(hn::Shr(these, hn::Mul(hn::Iota(u, 0), hn::Set(u, bits))), hn::Set(u, mask));
    }
#endif
};

/// Stored scales as floats.
HWY_INLINE void widen(const float* from, std::size_t count, float* to) {
    std::memcpy(to, from, count * sizeof(float));
}

template <typename S, float one(std::uint16_t)>
HWY_INLINE void widen_stored(const std::uint16_t* from, std::size_t count, float* to) {
    const F d;
    const hn::Rebind<S, F> narrow;
    std::size_t i = 0;
    for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d))
        hn::StoreU(hn::PromoteTo(d, hn::LoadU(narrow, reinterpret_cast<const S*>(from + i))), d, to + i);
    for (; i < count; ++i) to[i] = one(from[i]);
}
HWY_INLINE void widen(const half* from, std::size_t count, float* to) {
    widen_stored<hwy::float16_t, float_from_f16>(&from->bits, count, to);
}
HWY_INLINE void widen(const bfloat* from, std::size_t count, float* to) {
    widen_stored<hwy::bfloat16_t, float_from_bf16>(&from->bits, count, to);
}

}  // namespace kapitsa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

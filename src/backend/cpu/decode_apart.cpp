// Decoders of the forms of safetensors files whose scales lie apart: the vector twins of
// kernels/blocks/apart.h. Codes of 8 bits become f16 on their way, which holds them exactly, with the sign of
// zero, and widens in one instruction.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/decode_apart.cpp"
#include "hwy/foreach_target.h"  // compiles this file once an instruction set
// (after it)
#include "backend/cpu/affine-inl.h"
#include "backend/cpu/decode-inl.h"

#ifndef KAPITSA_SCALE_TABLES
#define KAPITSA_SCALE_TABLES
#include <array>

namespace kapitsa::cpu {

/// What each byte of scale stands for.
template <float scale(uint code)>
constexpr std::array<float, 256> table_of = [] {
    std::array<float, 256> values{};
    for (uint code = 0; code < 256; ++code) values[code] = scale(code);
    return values;
}();

/// What each e2m1 code stands for, and the two bytes of it as bf16.
constexpr float e2m1_floats[16] = {0,     0.5f,  1,     1.5f,  2,     3,     4,     6,
                                   -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};
[[maybe_unused]] constexpr uchar e2m1_low[16] = {0, 0, 0x80, 0xc0, 0, 0x40, 0x80, 0xc0,
                                                 0, 0, 0x80, 0xc0, 0, 0x40, 0x80, 0xc0};
[[maybe_unused]] constexpr uchar e2m1_high[16] = {0x00, 0x3f, 0x3f, 0x3f, 0x40, 0x40, 0x40, 0x40,
                                                  0x80, 0xbf, 0xbf, 0xbf, 0xc0, 0xc0, 0xc0, 0xc0};

}  // namespace kapitsa::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace kapitsa::cpu::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR  // without vectors, decode_plain.cpp does it
/// 32 codes of e2m1 in 16 bytes, pairs of neighbours: put(floats, place), a vector at a time, of the codes'
/// values times scale_at(place).
#if HWY_MAX_BYTES >= 32  // all codes, or all their magnitudes, fit one vector of floats: a code is an index
class Pairs {
public:
    Pairs() : levels_(hn::LoadU(F(), e2m1_floats)) {}

    template <typename ScaleAt, typename Put>
    HWY_INLINE void decode(const uchar* from, ScaleAt scale_at, Put put) const {
        const F d;
        const auto* words = reinterpret_cast<const std::uint32_t*>(from);  // loaded as bytes are
        const auto all = unpacker_.load(words, words + 4);
        for (std::size_t c = 0; c < 32 / hn::Lanes(d); ++c) {
            const auto codes = unpacker_.codes(all, words, c);
            const auto levels = hn::Mul(levels_, hn::Set(d, scale_at(c * hn::Lanes(d))));
            put(value(levels, codes), c * hn::Lanes(d));
        }
    }

private:
    static HWY_INLINE FloatVec value(FloatVec levels, WordVec codes) {
        const F d;
        const hn::RebindToSigned<F> i;
#if HWY_MAX_BYTES >= 64
        return hn::TableLookupLanes(levels, hn::IndicesFromVec(d, hn::BitCast(i, codes)));
#else
        const auto magnitude = hn::BitCast(i, hn::And(codes, hn::Set(U(), 7)));
        const auto sign = hn::ShiftLeft<28>(hn::And(codes, hn::Set(U(), 8)));
        return hn::Xor(hn::TableLookupLanes(levels, hn::IndicesFromVec(d, magnitude)), hn::BitCast(d, sign));
#endif
    }

    FloatVec levels_;
    Unpacker<4> unpacker_;
};
#else  // four lanes: by way of bf16, which holds every code exactly
class Pairs {
public:
    template <typename ScaleAt, typename Put>
    HWY_INLINE void decode(const uchar* from, ScaleAt scale_at, Put put) const {
        const F d;
        const Bytes16 b;
        const hn::Rebind<hwy::bfloat16_t, F> narrow;
        HWY_ALIGN std::uint8_t bytes[64];
        const auto low = hn::LoadU(b, e2m1_low), high = hn::LoadU(b, e2m1_high);
        const auto store = [&](ByteVec codes, std::uint8_t* at) HWY_ATTR {
            const auto lows = hn::TableLookupBytes(low, codes), highs = hn::TableLookupBytes(high, codes);
            hn::StoreU(hn::InterleaveLower(b, lows, highs), b, at);
            hn::StoreU(hn::InterleaveUpper(b, lows, highs), b, at + 16);
        };
        const auto v = load16(from), even = low_nibbles(v), odd = high_nibbles(v);
        store(hn::InterleaveLower(b, even, odd), bytes);
        store(hn::InterleaveUpper(b, even, odd), bytes + 32);
        for (std::size_t k = 0; k < 32; k += hn::Lanes(d)) {
            const auto codes = hn::LoadU(narrow, reinterpret_cast<const hwy::bfloat16_t*>(bytes + 2 * k));
            put(hn::Mul(hn::PromoteTo(d, codes), hn::Set(d, scale_at(k))), k);
        }
    }
};
#endif

/// Groups of `group` codes of 4 bits.
template <std::size_t group, float scale_of(uint code)>
void decode_pairs(const BlockRow& row, std::size_t first, std::size_t count, float* to) {
    const F d;
    const Pairs pairs;
    const float factor = row.factors[0];
    const uchar* scales = row.scales + first / group;
    const uchar* from = row.blocks + first / 2;
    const auto scale_at = [&](std::size_t k)
                              HWY_ATTR { return table_of<scale_of>[scales[k / group]] * factor; };
    std::size_t i = 0;
    for (; i + 32 <= count; i += 32, from += 16, scales += 32 / group)
        pairs.decode(from, scale_at,
                     [&](FloatVec v, std::size_t k) HWY_ATTR { hn::StoreU(v, d, to + i + k); });
    if (i == count) return;
    // One group of 16 is left: what lies behind it is not ours, neither codes nor a scale.
    uchar bytes[16] = {};
    std::memcpy(bytes, from, 8);
    pairs.decode(
        bytes, [&](std::size_t k) HWY_ATTR { return scale_at(k < 16 ? k : 0); },
        [&](FloatVec v, std::size_t k) HWY_ATTR {
            if (k < 16) hn::StoreU(v, d, to + i + k);
        });
}

using E4m3 = hn::Rebind<std::uint8_t, F>;

HWY_INLINE FloatVec e4m3_floats(hn::Vec<E4m3> codes) {
    const F d;
    const hn::Rebind<std::uint16_t, F> words;
    const hn::Rebind<hwy::float16_t, F> halves;
    const auto code = hn::PromoteTo(words, codes);
    // Exponent and fraction go to their places in f16, whose bias is 8 larger.
    const auto magnitude = hn::And(hn::ShiftLeft<7>(code), hn::Set(words, 0x3f80));
    const auto sign = hn::ShiftLeft<8>(hn::And(code, hn::Set(words, 0x80)));
    const auto nan = hn::VecFromMask(words, hn::Eq(magnitude, hn::Set(words, 0x3f80)));
    const auto bits = hn::Or(hn::Or(magnitude, sign), hn::And(nan, hn::Set(words, 0x7e00)));
    return hn::Mul(hn::PromoteTo(d, hn::BitCast(halves, bits)), hn::Set(d, 256.0f));
}

HWY_INLINE void put_e4m3(const uchar* from, std::size_t count, float scale, float* to) {
    const F d;
    const auto factor = hn::Set(d, scale);
    std::size_t i = 0;
    for (; i + hn::Lanes(d) <= count; i += hn::Lanes(d))
        hn::StoreU(hn::Mul(e4m3_floats(hn::LoadU(E4m3(), from + i)), factor), d, to + i);
    if (i < count)
        store_first(hn::Mul(e4m3_floats(load_first(E4m3(), from + i, count - i)), factor), d, to + i,
                    count - i);
}

void decode_mxfp8(const BlockRow& row, std::size_t first, std::size_t count, float* to) {
    const float factor = row.factors[0];
    const uchar* scales = row.scales + first / 32;
    for (std::size_t i = 0; i < count; i += 32, ++scales)
        put_e4m3(row.blocks + first + i, 32, table_of<blocks::e8m0>[*scales] * factor, to + i);
}

void decode_fp8(const BlockRow& row, std::size_t first, std::size_t count, float* to) {
    const std::size_t end = first + count, tile = row.factor_columns;
    for (std::size_t c = first; c < end;) {
        const std::size_t here = HWY_MIN(end, (c / tile + 1) * tile) - c;
        put_e4m3(row.blocks + c, here, row.factors[c / tile], to);
        c += here;
        to += here;
    }
}

Decode apart_decoder_here(BlockForm form) {
    switch (form) {
        case BlockForm::nvfp4: return decode_pairs<16, blocks::e4m3>;
        case BlockForm::mxfp4: return decode_pairs<32, blocks::e8m0>;
        case BlockForm::mxfp8: return decode_mxfp8;
        case BlockForm::fp8: return decode_fp8;
        default: return nullptr;
    }
}

#else
Decode apart_decoder_here(BlockForm) { return nullptr; }
#endif

}  // namespace kapitsa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kapitsa::cpu {

HWY_EXPORT(apart_decoder_here);
Decode apart_decoder(BlockForm form) { return HWY_DYNAMIC_DISPATCH(apart_decoder_here)(form); }

}  // namespace kapitsa::cpu
#endif

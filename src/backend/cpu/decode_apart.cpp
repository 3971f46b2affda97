// Decoders of the forms of safetensors files whose scales lie apart: the vector twins of
// kernels/blocks/apart.h. Codes of 4 bits become bf16 on their way, codes of 8 bits f16: both hold them
// exactly, with the sign of zero, and widen in one instruction.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/decode_apart.cpp"
#include "hwy/foreach_target.h"  // compiles this file once an instruction set
// (after it)
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

/// The two bytes of each e2m1 code as bf16.
constexpr uchar e2m1_low[16] = {0, 0, 0x80, 0xc0, 0, 0x40, 0x80, 0xc0, 0, 0, 0x80, 0xc0, 0, 0x40, 0x80, 0xc0};
constexpr uchar e2m1_high[16] = {0x00, 0x3f, 0x3f, 0x3f, 0x40, 0x40, 0x40, 0x40,
                                 0x80, 0xbf, 0xbf, 0xbf, 0xc0, 0xc0, 0xc0, 0xc0};

}  // namespace kapitsa::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace kapitsa::cpu::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR  // without vectors, decode_plain.cpp does it
/// 32 codes in 16 bytes, pairs of neighbours, as bf16.
HWY_INLINE void put_pairs(const uchar* from, std::uint16_t* to) {
    const Bytes16 b;
    const auto low = hn::LoadU(b, e2m1_low), high = hn::LoadU(b, e2m1_high);
    const auto put = [&](ByteVec codes, std::uint16_t* at) HWY_ATTR {
        const auto lows = hn::TableLookupBytes(low, codes), highs = hn::TableLookupBytes(high, codes);
        auto* bytes = reinterpret_cast<std::uint8_t*>(at);
        hn::StoreU(hn::InterleaveLower(b, lows, highs), b, bytes);
        hn::StoreU(hn::InterleaveUpper(b, lows, highs), b, bytes + 16);
    };
    const auto v = load16(from), even = low_nibbles(v), odd = high_nibbles(v);
    put(hn::InterleaveLower(b, even, odd), to);
    put(hn::InterleaveUpper(b, even, odd), to + 16);
}

/// Groups of `group` codes of 4 bits.
template <std::size_t group, float scale_of(uint code)>
void decode_pairs(const BlockRow& row, std::size_t first, std::size_t count, float* to) {
    const F d;
    const hn::Rebind<hwy::bfloat16_t, F> narrow;
    const float factor = row.factors[0];
    const uchar* scales = row.scales + first / group;
    const uchar* from = row.blocks + first / 2;
    for (std::size_t i = 0; i < count; i += 32, from += 16) {
        HWY_ALIGN std::uint16_t codes[32];
        const std::size_t here = HWY_MIN(std::size_t(32), count - i);
        if (here == 32) {
            put_pairs(from, codes);
        } else {  // half a vector is left: what lies behind it is not ours
            uchar bytes[16] = {};
            std::memcpy(bytes, from, 8);
            put_pairs(bytes, codes);
        }
        for (std::size_t g = 0; g < here; g += group, ++scales) {
            const auto scale = hn::Set(d, table_of<scale_of>[*scales] * factor);
            for (std::size_t k = g; k < g + group; k += hn::Lanes(d)) {
                const auto v = hn::LoadU(narrow, reinterpret_cast<const hwy::bfloat16_t*>(codes + k));
                hn::StoreU(hn::Mul(hn::PromoteTo(d, v), scale), d, to + i + k);
            }
        }
    }
}

/// The first `count` codes of e4m3 from memory, as floats.
HWY_INLINE FloatVec load_e4m3(const uchar* from, std::size_t count) {
    const F d;
    const hn::Rebind<std::uint8_t, F> narrow;
    const hn::Rebind<std::uint16_t, F> words;
    const hn::Rebind<hwy::float16_t, F> halves;
    const auto code = hn::PromoteTo(words, load_first(narrow, from, count));
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
    for (std::size_t i = 0; i < count; i += hn::Lanes(d))
        store_first(hn::Mul(load_e4m3(from + i, count - i), factor), d, to + i, count - i);
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

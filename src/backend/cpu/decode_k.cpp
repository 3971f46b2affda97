// Decoders of the GGUF K types and the ternary ones: the vector twins of kernels/blocks/k_quants.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/decode_k.cpp"
#include "hwy/foreach_target.h"  // compiles this file once an instruction set
// (after it)
#include "backend/cpu/decode-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kapitsa::cpu::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR  // without vectors, decode_plain.cpp does it
using blocks::half_at;

/// put(codes, number) with each 16 of the codes of 2 bits in 64 bytes. Of every 32 values the first 16 come
/// before all others in their 128.
template <typename Put>
HWY_INLINE void with_two_bits(const uchar* from, Put put) {
    const auto three = hn::Set(Bytes16(), 3);
    for (std::size_t part = 0; part < 4; ++part) {  // 16 bytes, whose four pairs of bits are 32 values apart
        auto v = load16(from + 16 * part);
        for (std::size_t j = 0; j < 4; ++j) {
            put(hn::And(v, three), 8 * (part / 2) + 2 * j + part % 2);  // counted in 16 values
            v = hn::ShiftRight<2>(v);
        }
    }
}

HWY_INLINE void q2_k(const uchar* block, float* to) {
    HWY_ALIGN float scales[16], minima[16];
    const auto packed = load16(block);
    put_signed(low_nibbles(packed), half_at(block + 80), scales);
    put_signed(high_nibbles(packed), half_at(block + 82), minima);
    with_two_bits(block + 16, [&](ByteVec codes, std::size_t k)
                                  HWY_ATTR { put_unsigned(codes, scales[k], -minima[k], to + 16 * k); });
}

/// 16 scales of 6 bits, less 32, times d.
HWY_INLINE void q3_k_scales(const uchar* packed, float d, float* to) {
    std::uint32_t low[2], high;
    std::memcpy(low, packed, 8);
    std::memcpy(&high, packed + 8, 4);
    constexpr std::uint32_t nibbles = 0x0f0f0f0f, pairs = 0x03030303;
    HWY_ALIGN const std::uint32_t words[4] = {(low[0] & nibbles) | (high & pairs) << 4,
                                              (low[1] & nibbles) | (high >> 2 & pairs) << 4,
                                              (low[0] >> 4 & nibbles) | (high >> 4 & pairs) << 4,
                                              (low[1] >> 4 & nibbles) | (high >> 6 & pairs) << 4};
    const auto scales = hn::BitCast(Bytes16(), hn::Load(hn::FixedTag<std::uint32_t, 4>(), words));
    put_signed(hn::Sub(scales, hn::Set(Bytes16(), 32)), d, to);
}

HWY_INLINE void q3_k(const uchar* block, float* to) {
    HWY_ALIGN float scales[16];
    q3_k_scales(block + 96, half_at(block + 108), scales);
    const auto four = hn::Set(Bytes16(), 4);
    auto thirds = hn::Zero(Bytes16());  // those of the values at hand are the lowest bits
    with_two_bits(block + 32, [&](ByteVec codes, std::size_t k) HWY_ATTR {
        if (k % 8 < 2) {  // the first of four that have theirs in the same bytes
            thirds = load16(block + 16 * (k % 2));
            if (k >= 8) thirds = hn::ShiftRight<4>(thirds);
        }
        const auto third = hn::And(hn::ShiftLeft<2>(thirds), four);
        thirds = hn::ShiftRight<1>(thirds);
        put_signed(hn::Sub(hn::Or(codes, third), four), scales[k], to + 16 * k);
    });
}

/// The scales and the negated minima of Q4_K and Q5_K, eight of each.
HWY_INLINE void six_bit_scales(const uchar* block, float* scales, float* minima) {
    std::uint32_t a, b, c;
    std::memcpy(&a, block + 4, 4);
    std::memcpy(&b, block + 8, 4);
    std::memcpy(&c, block + 12, 4);
    constexpr std::uint32_t six = 0x3f3f3f3f, nibbles = 0x0f0f0f0f, pairs = 0x03030303;
    const std::uint32_t words[4] = {a & six, (c & nibbles) | (a >> 6 & pairs) << 4, b & six,
                                    (c >> 4 & nibbles) | (b >> 6 & pairs) << 4};
    const float d = half_at(block), least = -half_at(block + 2);
    for (std::size_t k = 0; k < 8; ++k) scales[k] = d * float(words[k / 4] >> 8 * (k % 4) & 63);
    for (std::size_t k = 0; k < 8; ++k) minima[k] = least * float(words[2 + k / 4] >> 8 * (k % 4) & 63);
}

HWY_INLINE void q4_k(const uchar* block, float* to) {
    float scales[8], minima[8];
    six_bit_scales(block, scales, minima);
    for (std::size_t i = 0; i < 8; ++i) {  // 16 bytes: a half of two sub-blocks
        const auto v = load16(block + 16 + 16 * i);
        const std::size_t k = i / 2 * 2, at = 32 * k + 16 * (i % 2);
        put_unsigned(low_nibbles(v), scales[k], minima[k], to + at);
        put_unsigned(high_nibbles(v), scales[k + 1], minima[k + 1], to + at + 32);
    }
}

HWY_INLINE void q5_k(const uchar* block, float* to) {
    float scales[8], minima[8];
    six_bit_scales(block, scales, minima);
    const auto sixteen = hn::Set(Bytes16(), 16);
    for (std::size_t part = 0; part < 2; ++part) {  // a half of every sub-block
        auto fifths = load16(block + 16 + 16 * part);
        for (std::size_t k = 0; k < 8; k += 2) {
            const auto v = load16(block + 48 + 16 * k + 16 * part);
            float* at = to + 32 * k + 16 * part;
            put_unsigned(hn::Or(low_nibbles(v), hn::And(hn::ShiftLeft<4>(fifths), sixteen)), scales[k],
                         minima[k], at);
            put_unsigned(hn::Or(high_nibbles(v), hn::And(hn::ShiftLeft<3>(fifths), sixteen)), scales[k + 1],
                         minima[k + 1], at + 32);
            fifths = hn::ShiftRight<2>(fifths);
        }
    }
}

HWY_INLINE void q6_k(const uchar* block, float* to) {
    HWY_ALIGN float scales[16];
    put_signed(load16(block + 192), half_at(block + 208), scales);
    const auto upper = hn::Set(Bytes16(), 48), less = hn::Set(Bytes16(), 32);
    for (std::size_t i = 0; i < 4; ++i) {  // 16 bytes of pairs of bits, for 64 values, 32 apart
        const std::size_t part = i / 2, place = 16 * (i % 2);
        const auto pairs = load16(block + 128 + 16 * i);
        const auto first = load16(block + 64 * part + place), second = load16(block + 64 * part + 32 + place);
        const auto put = [&](std::size_t j, ByteVec low, ByteVec pair) HWY_ATTR {
            const std::size_t at = 128 * part + 32 * j + place;
            put_signed(hn::Sub(hn::Or(low, hn::And(pair, upper)), less), scales[at / 16], to + at);
        };
        put(0, low_nibbles(first), hn::ShiftLeft<4>(pairs));
        put(1, low_nibbles(second), hn::ShiftLeft<2>(pairs));
        put(2, high_nibbles(first), pairs);
        put(3, high_nibbles(second), hn::ShiftRight<2>(pairs));
    }
}

/// Digits n of neighbouring bytes, less 1.
HWY_INLINE void put_digits(const uchar* from, std::size_t count, std::uint32_t power, uchar* to) {
    for (std::size_t i = 0; i < count; ++i)
        to[i] = uchar((std::uint32_t(std::uint8_t(from[i] * power)) * 3 >> 8) - 1);
}

HWY_INLINE void tq1_0(const uchar* block, float* to) {
    uchar codes[256];
    std::uint32_t power = 1;
    for (std::size_t n = 0; n < 5; ++n, power *= 3) {
        put_digits(block, 32, power, codes + 32 * n);
        put_digits(block + 32, 16, power, codes + 160 + 16 * n);
        if (n < 4) put_digits(block + 48, 4, power, codes + 240 + 4 * n);
    }
    const float d = half_at(block + 52);
    for (std::size_t i = 0; i < 256; i += 16) put_signed(load16(codes + i), d, to + i);
}

HWY_INLINE void tq2_0(const uchar* block, float* to) {
    const float d = half_at(block + 64);
    const auto one = hn::Set(Bytes16(), 1);
    with_two_bits(block, [&](ByteVec codes, std::size_t k)
                             HWY_ATTR { put_signed(hn::Sub(codes, one), d, to + 16 * k); });
}

Decode k_decoder_here(BlockForm form) {
    using namespace blocks;
    switch (form) {
        case BlockForm::q2_k: return decode_blocks<Q2_K, q2_k>;
        case BlockForm::q3_k: return decode_blocks<Q3_K, q3_k>;
        case BlockForm::q4_k: return decode_blocks<Q4_K, q4_k>;
        case BlockForm::q5_k: return decode_blocks<Q5_K, q5_k>;
        case BlockForm::q6_k: return decode_blocks<Q6_K, q6_k>;
        case BlockForm::tq1_0: return decode_blocks<TQ1_0, tq1_0>;
        case BlockForm::tq2_0: return decode_blocks<TQ2_0, tq2_0>;
        default: return nullptr;
    }
}

#else
Decode k_decoder_here(BlockForm) { return nullptr; }
#endif

}  // namespace kapitsa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kapitsa::cpu {

HWY_EXPORT(k_decoder_here);
Decode k_decoder(BlockForm form) { return HWY_DYNAMIC_DISPATCH(k_decoder_here)(form); }

}  // namespace kapitsa::cpu
#endif

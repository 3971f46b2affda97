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

/// The codes of 2 bits in 64 bytes, in order: then `finish(codes, number of the 16)` has its say.
template <typename Finish>
HWY_INLINE void put_two_bits(const uchar* from, CodeBytes<256>& codes, Finish finish) {
    const auto three = hn::Set(Bytes16(), 3);
    for (std::size_t part = 0; part < 4; ++part) {  // 16 bytes, whose four pairs of bits are 32 values apart
        auto v = load16(from + 16 * part);
        for (std::size_t j = 0; j < 4; ++j) {
            const std::size_t number = 8 * (part / 2) + 2 * j + part % 2;
            codes.put(16 * number, finish(hn::And(v, three), number));
            v = hn::ShiftRight<2>(v);
        }
    }
}

HWY_INLINE void q2_k(const uchar* block, float* to) {
    CodeBytes<256> codes;
    put_two_bits(block + 16, codes, [](ByteVec v, std::size_t) { return v; });
    HWY_ALIGN float scales[16], minima[16];
    CodeBytes<32> small;
    const auto packed = load16(block);
    small.put(0, low_nibbles(packed));
    small.put(16, high_nibbles(packed));
    put_signed(small.at, 16, half_at(block + 80), scales);
    put_signed(small.at + 16, 16, half_at(block + 82), minima);
    for (std::size_t k = 0; k < 16; ++k)
        put_unsigned(codes.at + 16 * k, 16, scales[k], -minima[k], to + 16 * k);
}

/// 16 scales of 6 bits, less 32, times d.
HWY_INLINE void q3_k_scales(const uchar* packed, float d, float* to) {
    std::uint32_t low[2], high;
    std::memcpy(low, packed, 8);
    std::memcpy(&high, packed + 8, 4);
    constexpr std::uint32_t nibbles = 0x0f0f0f0f, pairs = 0x03030303;
    const std::uint32_t words[4] = {(low[0] & nibbles) | (high & pairs) << 4,
                                    (low[1] & nibbles) | (high >> 2 & pairs) << 4,
                                    (low[0] >> 4 & nibbles) | (high >> 4 & pairs) << 4,
                                    (low[1] >> 4 & nibbles) | (high >> 6 & pairs) << 4};
    CodeBytes<16> scales;
    std::memcpy(scales.at, words, 16);
    scales.put(0, hn::Sub(load16(scales.at), hn::Set(Bytes16(), 32)));
    put_signed(scales.at, 16, d, to);
}

HWY_INLINE void q3_k(const uchar* block, float* to) {
    CodeBytes<256> codes;
    const ByteVec thirds[2] = {load16(block), load16(block + 16)};
    const auto four = hn::Set(Bytes16(), 4);
    ByteVec bits[2] = {thirds[0], thirds[1]};  // those of the 32 values at hand, lowest
    // put_two_bits takes 16 of every 32 values first, then the others; their third bits are walked likewise.
    put_two_bits(block + 32, codes, [&](ByteVec v, std::size_t number) HWY_ATTR {
        ByteVec& mine = bits[number % 2];
        const auto third = hn::And(hn::ShiftLeft<2>(mine), four);
        mine = hn::ShiftRight<1>(mine);
        return hn::Sub(hn::Or(v, third), four);
    });
    HWY_ALIGN float scales[16];
    q3_k_scales(block + 96, half_at(block + 108), scales);
    for (std::size_t k = 0; k < 16; ++k) put_signed(codes.at + 16 * k, 16, scales[k], to + 16 * k);
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
    uchar bytes[16];
    std::memcpy(bytes, words, 16);
    const float d = half_at(block), least = -half_at(block + 2);
    for (std::size_t k = 0; k < 8; ++k) scales[k] = d * float(bytes[k]);
    for (std::size_t k = 0; k < 8; ++k) minima[k] = least * float(bytes[8 + k]);
}

/// Codes of 4 bits, each 32 bytes two sub-blocks of 32.
HWY_INLINE void put_nibbles(const uchar* from, CodeBytes<256>& codes) {
    for (std::size_t i = 0; i < 8; ++i) {
        const auto v = load16(from + 16 * i);
        const std::size_t at = 64 * (i / 2) + 16 * (i % 2);
        codes.put(at, low_nibbles(v));
        codes.put(at + 32, high_nibbles(v));
    }
}

HWY_INLINE void q4_k(const uchar* block, float* to) {
    CodeBytes<256> codes;
    put_nibbles(block + 16, codes);
    float scales[8], minima[8];
    six_bit_scales(block, scales, minima);
    for (std::size_t k = 0; k < 8; ++k)
        put_unsigned(codes.at + 32 * k, 32, scales[k], minima[k], to + 32 * k);
}

HWY_INLINE void q5_k(const uchar* block, float* to) {
    CodeBytes<256> codes;
    put_nibbles(block + 48, codes);
    const auto sixteen = hn::Set(Bytes16(), 16);
    for (std::size_t half_of = 0; half_of < 2; ++half_of) {
        auto fifths = load16(block + 16 + 16 * half_of);
        for (std::size_t k = 0; k < 8; ++k) {
            const std::size_t at = 32 * k + 16 * half_of;
            codes.put(at, hn::Or(load16(codes.at + at), hn::And(hn::ShiftLeft<4>(fifths), sixteen)));
            fifths = hn::ShiftRight<1>(fifths);
        }
    }
    float scales[8], minima[8];
    six_bit_scales(block, scales, minima);
    for (std::size_t k = 0; k < 8; ++k)
        put_unsigned(codes.at + 32 * k, 32, scales[k], minima[k], to + 32 * k);
}

HWY_INLINE void q6_k(const uchar* block, float* to) {
    CodeBytes<256> codes;
    const auto upper = hn::Set(Bytes16(), 48), less = hn::Set(Bytes16(), 32);
    for (std::size_t i = 0; i < 4; ++i) {  // 16 bytes of pairs of bits, for 64 values, 32 apart
        const std::size_t part = i / 2, place = 16 * (i % 2);
        const auto pairs = load16(block + 128 + 16 * i);
        const auto first = load16(block + 64 * part + place), second = load16(block + 64 * part + 32 + place);
        const auto put = [&](std::size_t j, ByteVec low, ByteVec pair) HWY_ATTR {
            codes.put(128 * part + 32 * j + place, hn::Sub(hn::Or(low, hn::And(pair, upper)), less));
        };
        put(0, low_nibbles(first), hn::ShiftLeft<4>(pairs));
        put(1, low_nibbles(second), hn::ShiftLeft<2>(pairs));
        put(2, high_nibbles(first), pairs);
        put(3, high_nibbles(second), hn::ShiftRight<2>(pairs));
    }
    HWY_ALIGN float scales[16];
    put_signed(block + 192, 16, half_at(block + 208), scales);
    for (std::size_t k = 0; k < 16; ++k) put_signed(codes.at + 16 * k, 16, scales[k], to + 16 * k);
}

/// Digits n of neighbouring bytes, less 1.
HWY_INLINE void put_digits(const uchar* from, std::size_t count, std::uint32_t power, uchar* to) {
    for (std::size_t i = 0; i < count; ++i)
        to[i] = uchar((std::uint32_t(std::uint8_t(from[i] * power)) * 3 >> 8) - 1);
}

HWY_INLINE void tq1_0(const uchar* block, float* to) {
    CodeBytes<256> codes;
    std::uint32_t power = 1;
    for (std::size_t n = 0; n < 5; ++n, power *= 3) {
        put_digits(block, 32, power, codes.at + 32 * n);
        put_digits(block + 32, 16, power, codes.at + 160 + 16 * n);
        if (n < 4) put_digits(block + 48, 4, power, codes.at + 240 + 4 * n);
    }
    put_signed(codes.at, 256, half_at(block + 52), to);
}

HWY_INLINE void tq2_0(const uchar* block, float* to) {
    CodeBytes<256> codes;
    const auto one = hn::Set(Bytes16(), 1);
    put_two_bits(block, codes, [&](ByteVec v, std::size_t) HWY_ATTR { return hn::Sub(v, one); });
    put_signed(codes.at, 256, half_at(block + 64), to);
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

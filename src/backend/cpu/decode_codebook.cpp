// Decoders of the GGUF types with tables: the vector twins of kernels/blocks/codebook.h. Eight magnitudes are
// one word of a table that is unpacked when this file is compiled.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/decode_codebook.cpp"
#include "hwy/foreach_target.h"  // compiles this file once an instruction set
// (after it)
#include "backend/cpu/decode-inl.h"

#ifndef KAPITSA_CODEBOOK_TABLES
#define KAPITSA_CODEBOOK_TABLES
#include <array>

namespace kapitsa::cpu {

/// A codebook with a byte to each value, the first one lowest.
template <typename Word, Word level(uint entry, uint j), std::size_t count>
constexpr std::array<Word, count> unpacked(const ushort (&grid)[count]) {
    std::array<Word, count> words{};
    for (std::size_t i = 0; i < count; ++i)
        for (uint j = 0; j < sizeof(Word); ++j) words[i] |= Word(level(grid[i], j) << 8 * j);
    return words;
}
constexpr std::uint64_t iq2_byte(uint entry, uint j) { return std::uint64_t(blocks::iq2_level(entry, j)); }
constexpr std::uint32_t iq3_xxs_byte(uint entry, uint j) {
    return std::uint32_t(blocks::iq3_xxs_level(entry, j));
}
constexpr std::uint32_t iq3_s_byte(uint entry, uint j) {
    return std::uint32_t(blocks::iq3_s_level(entry, j));
}

constexpr auto iq2_xxs_words = unpacked<std::uint64_t, iq2_byte>(blocks::iq2_xxs_grid);
constexpr auto iq2_xs_words = unpacked<std::uint64_t, iq2_byte>(blocks::iq2_xs_grid);
constexpr auto iq2_s_words = unpacked<std::uint64_t, iq2_byte>(blocks::iq2_s_grid);
constexpr auto iq3_xxs_words = unpacked<std::uint32_t, iq3_xxs_byte>(blocks::iq3_xxs_grid);
constexpr auto iq3_s_words = unpacked<std::uint32_t, iq3_s_byte>(blocks::iq3_s_grid);

constexpr auto even_signs_of = [] {
    std::array<uchar, 128> signs{};
    for (uint seven = 0; seven < 128; ++seven) signs[seven] = uchar(blocks::even_signs(seven));
    return signs;
}();

}  // namespace kapitsa::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace kapitsa::cpu::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR  // without vectors, decode_plain.cpp does it
using blocks::half_at;

/// Sixteen magnitudes, of two patterns or of four. (Put together in registers: a vector that is loaded from
/// what was just stored in pieces waits for them.)
HWY_INLINE ByteVec joined(std::uint64_t first, std::uint64_t second) {
    const hn::FixedTag<std::uint64_t, 2> d;
    return hn::BitCast(Bytes16(), hn::InterleaveLower(d, hn::Set(d, first), hn::Set(d, second)));
}
HWY_INLINE ByteVec joined(const std::uint32_t& w0, const std::uint32_t& w1, const std::uint32_t& w2,
                          const std::uint32_t& w3) {
    const hn::FixedTag<std::uint32_t, 4> d;
    const hn::FixedTag<std::uint64_t, 2> pairs;
    const auto first = hn::InterleaveLower(d, hn::Set(d, w0), hn::Set(d, w1)),
               second = hn::InterleaveLower(d, hn::Set(d, w2), hn::Set(d, w3));
    return hn::BitCast(Bytes16(),
                       hn::InterleaveLower(pairs, hn::BitCast(pairs, first), hn::BitCast(pairs, second)));
}
HWY_INLINE ByteVec with_signs(ByteVec magnitudes, std::uint32_t signs) {
    const auto minus = bits_to_bytes(signs, 0xff);
    return hn::Sub(hn::Xor(magnitudes, minus), minus);
}
/// Those of 16 values, from 14 bits.
HWY_INLINE std::uint32_t two_even_signs(std::uint32_t bits) {
    return even_signs_of[bits & 127] | even_signs_of[bits >> 7 & 127] << 8;
}

HWY_INLINE void iq4_xs(const uchar* block, float* to) {
    const float d = half_at(block);
    for (uint k = 0; k < 8; ++k) {
        const auto v = load16(block + 8 + 16 * k);
        const float scale = d * float(blocks::IQ4_XS::scale(block, k));
        put_signed(look_up(blocks::iq4_levels, low_nibbles(v)), scale, to + 32 * k);
        put_signed(look_up(blocks::iq4_levels, high_nibbles(v)), scale, to + 32 * k + 16);
    }
}

HWY_INLINE void iq2_xxs(const uchar* block, float* to) {
    const float d = half_at(block);
    for (std::size_t k = 0; k < 8; ++k, to += 32) {
        const uchar* part = block + 2 + 8 * k;
        const std::uint32_t word = blocks::word_at(part + 4);
        const float scale = blocks::IQ2_XXS::scale(d, word >> 28);
        put_signed(with_signs(joined(iq2_xxs_words[part[0]], iq2_xxs_words[part[1]]), two_even_signs(word)),
                   scale, to);
        put_signed(
            with_signs(joined(iq2_xxs_words[part[2]], iq2_xxs_words[part[3]]), two_even_signs(word >> 14)),
            scale, to + 16);
    }
}

/// Scale l of the two in a byte.
HWY_INLINE float pair_scale(float d, std::uint32_t scales, std::size_t l) {
    return blocks::IQ2_XXS::scale(d, scales >> 4 * l & 15);
}

HWY_INLINE void iq2_xs(const uchar* block, float* to) {
    const float d = half_at(block);
    for (std::size_t i = 0; i < 16; ++i, to += 16) {  // 16 values
        const std::uint32_t codes = blocks::word_at(block + 2 + 4 * i);
        const std::uint32_t signs = two_even_signs((codes >> 9 & 127) | codes >> 25 << 7);
        put_signed(with_signs(joined(iq2_xs_words[codes & 511], iq2_xs_words[codes >> 16 & 511]), signs),
                   pair_scale(d, block[66 + i / 2], i % 2), to);
    }
}

HWY_INLINE void iq2_s(const uchar* block, float* to) {
    const float d = half_at(block);
    for (std::size_t i = 0; i < 16; ++i, to += 16) {
        const std::uint32_t upper = block[66 + i / 2] >> 4 * (i % 2);
        const std::uint32_t first = block[2 + 2 * i] | (upper & 3) << 8,
                            second = block[3 + 2 * i] | (upper >> 2 & 3) << 8;
        put_signed(with_signs(joined(iq2_s_words[first], iq2_s_words[second]),
                              block[34 + 2 * i] | block[35 + 2 * i] << 8),
                   pair_scale(d, block[74 + i / 2], i % 2), to);
    }
}

HWY_INLINE void iq3_xxs(const uchar* block, float* to) {
    const float d = half_at(block);
    for (std::size_t i = 0; i < 16; ++i, to += 16) {
        const uchar* part = block + 2 + 4 * i;
        const std::uint32_t word = blocks::word_at(block + 66 + 4 * (i / 2));
        put_signed(with_signs(joined(iq3_xxs_words[part[0]], iq3_xxs_words[part[1]], iq3_xxs_words[part[2]],
                                     iq3_xxs_words[part[3]]),
                              two_even_signs(word >> 14 * (i % 2))),
                   d * (0.5f + float(word >> 28)) * 0.5f, to);
    }
}

HWY_INLINE void iq3_s(const uchar* block, float* to) {
    const float d = half_at(block);
    for (std::size_t i = 0; i < 16; ++i, to += 16) {
        const uchar* part = block + 2 + 4 * i;
        const std::uint32_t ninths = block[66 + i / 2] >> 4 * (i % 2);
        const auto word = [&](std::size_t n) -> const std::uint32_t& {
            return iq3_s_words[part[n] | (ninths >> n & 1) << 8];
        };
        const std::uint32_t nibble = block[106 + i / 4] >> 4 * (i / 2 % 2) & 15;
        put_signed(with_signs(joined(word(0), word(1), word(2), word(3)),
                              block[74 + 2 * i] | block[75 + 2 * i] << 8),
                   d * float(1 + 2 * nibble), to);
    }
}

Decode codebook_decoder_here(BlockForm form) {
    using namespace blocks;
    switch (form) {
        case BlockForm::iq4_xs: return decode_blocks<IQ4_XS, iq4_xs>;
        case BlockForm::iq2_xxs: return decode_blocks<IQ2_XXS, iq2_xxs>;
        case BlockForm::iq2_xs: return decode_blocks<IQ2_XS, iq2_xs>;
        case BlockForm::iq2_s: return decode_blocks<IQ2_S, iq2_s>;
        case BlockForm::iq3_xxs: return decode_blocks<IQ3_XXS, iq3_xxs>;
        case BlockForm::iq3_s: return decode_blocks<IQ3_S, iq3_s>;
        default: return nullptr;
    }
}

#else
Decode codebook_decoder_here(BlockForm) { return nullptr; }
#endif

}  // namespace kapitsa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kapitsa::cpu {

HWY_EXPORT(codebook_decoder_here);
Decode codebook_decoder(BlockForm form) { return HWY_DYNAMIC_DISPATCH(codebook_decoder_here)(form); }

}  // namespace kapitsa::cpu
#endif

// Decoders of the GGUF types with tables: the fast twins of kernels/blocks/codebook.h. Eight magnitudes are
// one word from a table that is unpacked when this file is compiled; signs are put on with word arithmetic.
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

/// Bytes of 0xff where a bit of the signs is set.
constexpr auto sign_words = [] {
    std::array<std::uint64_t, 256> words{};
    for (std::size_t signs = 0; signs < 256; ++signs)
        for (std::size_t j = 0; j < 8; ++j)
            if (signs >> j & 1) words[signs] |= std::uint64_t(0xff) << 8 * j;
    return words;
}();
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

/// Eight magnitudes, 1 to 127 each, with their signs. (A byte's complement plus one carries nowhere: it is at
/// most 254 + 1.)
HWY_INLINE void put_eight(std::uint64_t magnitudes, std::uint32_t signs, uchar* to) {
    const std::uint64_t minus = sign_words[signs];
    const std::uint64_t bytes = (magnitudes ^ minus) + (minus & 0x0101010101010101u);
    std::memcpy(to, &bytes, 8);
}
HWY_INLINE std::uint64_t two_words(std::uint32_t low, std::uint32_t high) {
    return low | std::uint64_t(high) << 32;
}

HWY_INLINE void iq4_xs(const uchar* block, float* to) {
    const float d = half_at(block);
    for (uint k = 0; k < 8; ++k) {
        CodeBytes<32> codes;
        const auto v = load16(block + 8 + 16 * k);
        codes.put(0, look_up(blocks::iq4_levels, low_nibbles(v)));
        codes.put(16, look_up(blocks::iq4_levels, high_nibbles(v)));
        put_signed(codes.at, 32, d * float(blocks::IQ4_XS::scale(block, k)), to + 32 * k);
    }
}

HWY_INLINE void iq2_xxs(const uchar* block, float* to) {
    const float d = half_at(block);
    for (std::size_t k = 0; k < 8; ++k) {
        CodeBytes<32> codes;
        const uchar* part = block + 2 + 8 * k;
        const std::uint32_t word = blocks::word_at(part + 4);
        for (std::size_t l = 0; l < 4; ++l)
            put_eight(iq2_xxs_words[part[l]], even_signs_of[word >> 7 * l & 127], codes.at + 8 * l);
        put_signed(codes.at, 32, blocks::IQ2_XXS::scale(d, word >> 28), to + 32 * k);
    }
}

/// A nibble of scale to 16 values.
HWY_INLINE void put_pair(const CodeBytes<32>& codes, float d, std::uint32_t scales, float* to) {
    put_signed(codes.at, 16, blocks::IQ2_XXS::scale(d, scales & 15), to);
    put_signed(codes.at + 16, 16, blocks::IQ2_XXS::scale(d, scales >> 4), to + 16);
}

HWY_INLINE void iq2_xs(const uchar* block, float* to) {
    const float d = half_at(block);
    for (std::size_t k = 0; k < 8; ++k) {
        CodeBytes<32> codes;
        for (std::size_t l = 0; l < 4; ++l) {
            const uchar* pair = block + 2 + 8 * k + 2 * l;
            const std::uint32_t code = pair[0] | pair[1] << 8;
            put_eight(iq2_xs_words[code & 511], even_signs_of[code >> 9], codes.at + 8 * l);
        }
        put_pair(codes, d, block[66 + k], to + 32 * k);
    }
}

HWY_INLINE void iq2_s(const uchar* block, float* to) {
    const float d = half_at(block);
    for (std::size_t k = 0; k < 8; ++k) {
        CodeBytes<32> codes;
        for (std::size_t l = 0; l < 4; ++l) {
            const std::uint32_t upper = block[66 + k] >> 2 * l & 3;
            put_eight(iq2_s_words[block[2 + 4 * k + l] | upper << 8], block[34 + 4 * k + l],
                      codes.at + 8 * l);
        }
        put_pair(codes, d, block[74 + k], to + 32 * k);
    }
}

HWY_INLINE void iq3_xxs(const uchar* block, float* to) {
    const float d = half_at(block);
    for (std::size_t k = 0; k < 8; ++k) {
        CodeBytes<32> codes;
        const uchar* part = block + 2 + 8 * k;
        const std::uint32_t word = blocks::word_at(block + 66 + 4 * k);
        for (std::size_t l = 0; l < 4; ++l)
            put_eight(two_words(iq3_xxs_words[part[2 * l]], iq3_xxs_words[part[2 * l + 1]]),
                      even_signs_of[word >> 7 * l & 127], codes.at + 8 * l);
        put_signed(codes.at, 32, d * (0.5f + float(word >> 28)) * 0.5f, to + 32 * k);
    }
}

HWY_INLINE void iq3_s(const uchar* block, float* to) {
    const float d = half_at(block);
    for (std::size_t k = 0; k < 8; ++k) {
        CodeBytes<32> codes;
        const uchar* part = block + 2 + 8 * k;
        const std::uint32_t ninths = block[66 + k];
        for (std::size_t l = 0; l < 4; ++l) {
            const std::uint32_t first = part[2 * l] | (ninths >> 2 * l & 1) << 8,
                                second = part[2 * l + 1] | (ninths >> (2 * l + 1) & 1) << 8;
            put_eight(two_words(iq3_s_words[first], iq3_s_words[second]), block[74 + 4 * k + l],
                      codes.at + 8 * l);
        }
        const std::uint32_t nibble = block[106 + k / 2] >> 4 * (k % 2) & 15;
        put_signed(codes.at, 32, d * float(1 + 2 * nibble), to + 32 * k);
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

// Decoders of the GGUF types of up to 128 values: the vector twins of kernels/blocks/small.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/decode_small.cpp"
#include "hwy/foreach_target.h"  // compiles this file once an instruction set
// (after it)
#include "backend/cpu/decode-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kapitsa::cpu::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR  // without vectors, decode_plain.cpp does it
using blocks::half_at;

/// 32 codes in the halves of 16 bytes.
HWY_INLINE void put_halves(const uchar* from, CodeBytes<32>& codes) {
    const auto v = load16(from);
    codes.put(0, low_nibbles(v));
    codes.put(16, high_nibbles(v));
}
HWY_INLINE void put_fifths(const uchar* from, std::uint32_t fifths, std::uint8_t less, CodeBytes<32>& codes) {
    const auto v = load16(from), take = hn::Set(Bytes16(), less);
    codes.put(0, hn::Sub(hn::Or(low_nibbles(v), bits_to_bytes(fifths, 16)), take));
    codes.put(16, hn::Sub(hn::Or(high_nibbles(v), bits_to_bytes(fifths >> 16, 16)), take));
}
HWY_INLINE void put_looked_up(const uchar* from, const signed char* table, CodeBytes<32>& codes) {
    const auto v = load16(from);
    codes.put(0, look_up(table, low_nibbles(v)));
    codes.put(16, look_up(table, high_nibbles(v)));
}

HWY_INLINE void q4_0(const uchar* block, float* to) {
    CodeBytes<32> codes;
    const auto v = load16(block + 2), eight = hn::Set(Bytes16(), 8);
    codes.put(0, hn::Sub(low_nibbles(v), eight));
    codes.put(16, hn::Sub(high_nibbles(v), eight));
    put_signed(codes.at, 32, half_at(block), to);
}

HWY_INLINE void q4_1(const uchar* block, float* to) {
    CodeBytes<32> codes;
    put_halves(block + 4, codes);
    put_unsigned(codes.at, 32, half_at(block), half_at(block + 2), to);
}

HWY_INLINE void q5_0(const uchar* block, float* to) {
    CodeBytes<32> codes;
    put_fifths(block + 6, blocks::word_at(block + 2), 16, codes);
    put_signed(codes.at, 32, half_at(block), to);
}

HWY_INLINE void q5_1(const uchar* block, float* to) {
    CodeBytes<32> codes;
    put_fifths(block + 8, blocks::word_at(block + 4), 0, codes);
    put_unsigned(codes.at, 32, half_at(block), half_at(block + 2), to);
}

HWY_INLINE void q8_0(const uchar* block, float* to) { put_signed(block + 2, 32, half_at(block), to); }

HWY_INLINE void q1_0(const uchar* block, float* to) {
    CodeBytes<128> codes;
    const auto one = hn::Set(Bytes16(), 1);
    for (std::size_t i = 0; i < 8; ++i)  // 2 or 0, less 1
        codes.put(16 * i, hn::Sub(bits_to_bytes(block[2 + 2 * i] | block[3 + 2 * i] << 8, 2), one));
    put_signed(codes.at, 128, half_at(block), to);
}

HWY_INLINE void q2_0(const uchar* block, float* to) {
    CodeBytes<64> codes;
    for (std::size_t i = 0; i < 16; ++i) {
        const std::uint32_t b = block[2 + i];
        const std::uint32_t four = (b & 3) | (b & 12) << 6 | (b & 48) << 12 | (b & 192) << 18;
        std::memcpy(codes.at + 4 * i, &four, 4);
    }
    for (std::size_t i = 0; i < 64; i += 16)
        codes.put(i, hn::Sub(load16(codes.at + i), hn::Set(Bytes16(), 1)));
    put_signed(codes.at, 64, half_at(block), to);
}

HWY_INLINE void iq4_nl(const uchar* block, float* to) {
    CodeBytes<32> codes;
    put_looked_up(block + 2, blocks::iq4_levels, codes);
    put_signed(codes.at, 32, half_at(block), to);
}

HWY_INLINE void mxfp4(const uchar* block, float* to) {
    CodeBytes<32> codes;
    put_looked_up(block + 1, blocks::e2m1_doubled, codes);
    put_signed(codes.at, 32, blocks::e8m0(block[0]) * 0.5f, to);
}

/// The matrix's factor comes last.
void decode_nvfp4(const BlockRow& row, std::size_t first, std::size_t count, float* to) {
    using Block = blocks::GgufNVFP4;
    const F d;
    const Bytes16 b;
    const auto factor = hn::Set(d, row.factors[0]);
    const uchar* block = row.blocks + first / Block::values * Block::bytes;
    for (std::size_t i = 0; i < count; i += Block::values, block += Block::bytes, to += Block::values) {
        CodeBytes<64> codes;
        for (std::size_t pair = 0; pair < 2; ++pair) {  // of sub-blocks: 8 bytes each
            const auto v = load16(block + 4 + 16 * pair);
            const auto low = look_up(blocks::e2m1_doubled, low_nibbles(v)),
                       high = look_up(blocks::e2m1_doubled, high_nibbles(v));
            codes.put(32 * pair, hn::ConcatLowerLower(b, high, low));
            codes.put(32 * pair + 16, hn::ConcatUpperUpper(b, high, low));
        }
        for (std::size_t k = 0; k < 4; ++k)
            put_signed(codes.at + 16 * k, 16, blocks::ue4m3(block[k]) * 0.5f, to + 16 * k);
        for (std::size_t k = 0; k < Block::values; k += hn::Lanes(d))
            hn::StoreU(hn::Mul(hn::LoadU(d, to + k), factor), d, to + k);
    }
}

Decode small_decoder_here(BlockForm form) {
    using namespace blocks;
    switch (form) {
        case BlockForm::q4_0: return decode_blocks<Q4_0, q4_0>;
        case BlockForm::q4_1: return decode_blocks<Q4_1, q4_1>;
        case BlockForm::q5_0: return decode_blocks<Q5_0, q5_0>;
        case BlockForm::q5_1: return decode_blocks<Q5_1, q5_1>;
        case BlockForm::q8_0: return decode_blocks<Q8_0, q8_0>;
        case BlockForm::q1_0: return decode_blocks<Q1_0, q1_0>;
        case BlockForm::q2_0: return decode_blocks<Q2_0, q2_0>;
        case BlockForm::iq4_nl: return decode_blocks<IQ4_NL, iq4_nl>;
        case BlockForm::gguf_mxfp4: return decode_blocks<GgufMXFP4, mxfp4>;
        case BlockForm::gguf_nvfp4: return decode_nvfp4;
        default: return nullptr;
    }
}

#else
Decode small_decoder_here(BlockForm) { return nullptr; }
#endif

}  // namespace kapitsa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace kapitsa::cpu {

HWY_EXPORT(small_decoder_here);
Decode small_decoder(BlockForm form) { return HWY_DYNAMIC_DISPATCH(small_decoder_here)(form); }

}  // namespace kapitsa::cpu
#endif

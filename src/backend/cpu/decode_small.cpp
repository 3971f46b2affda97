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

/// Codes of 4 bits with a fifth: put(codes, place) with the values of the low nibbles, then of the high ones.
template <typename Put>
HWY_INLINE void with_fifths(const uchar* from, std::uint32_t fifths, Put put) {
    const auto v = load16(from);
    put(hn::Or(low_nibbles(v), bits_to_bytes(fifths, 16)), 0);
    put(hn::Or(high_nibbles(v), bits_to_bytes(fifths >> 16, 16)), 16);
}
HWY_INLINE void put_looked_up(const uchar* from, const signed char* table, float scale, float* to) {
    const auto v = load16(from);
    put_signed(look_up(table, low_nibbles(v)), scale, to);
    put_signed(look_up(table, high_nibbles(v)), scale, to + 16);
}

HWY_INLINE void q4_0(const uchar* block, float* to) {
    const float d = half_at(block);
    const auto v = load16(block + 2), eight = hn::Set(Bytes16(), 8);
    put_signed(hn::Sub(low_nibbles(v), eight), d, to);
    put_signed(hn::Sub(high_nibbles(v), eight), d, to + 16);
}

HWY_INLINE void q4_1(const uchar* block, float* to) {
    const float d = half_at(block), m = half_at(block + 2);
    const auto v = load16(block + 4);
    put_unsigned(low_nibbles(v), d, m, to);
    put_unsigned(high_nibbles(v), d, m, to + 16);
}

HWY_INLINE void q5_0(const uchar* block, float* to) {
    const float d = half_at(block);
    const auto less = hn::Set(Bytes16(), 16);
    with_fifths(block + 6, blocks::word_at(block + 2),
                [&](ByteVec codes, std::size_t i) HWY_ATTR { put_signed(hn::Sub(codes, less), d, to + i); });
}

HWY_INLINE void q5_1(const uchar* block, float* to) {
    const float d = half_at(block), m = half_at(block + 2);
    with_fifths(block + 8, blocks::word_at(block + 4),
                [&](ByteVec codes, std::size_t i) HWY_ATTR { put_unsigned(codes, d, m, to + i); });
}

HWY_INLINE void q8_0(const uchar* block, float* to) {
    const float d = half_at(block);
    put_signed(load16(block + 2), d, to);
    put_signed(load16(block + 18), d, to + 16);
}

HWY_INLINE void q1_0(const uchar* block, float* to) {
    const float d = half_at(block);
    const auto one = hn::Set(Bytes16(), 1);
    for (std::size_t i = 0; i < 8; ++i)  // 2 or 0, less 1
        put_signed(hn::Sub(bits_to_bytes(block[2 + 2 * i] | block[3 + 2 * i] << 8, 2), one), d, to + 16 * i);
}

HWY_INLINE void q2_0(const uchar* block, float* to) {
    const Bytes16 b;
    const float d = half_at(block);
    const auto one = hn::Set(b, 1), three = hn::Set(b, 3), v = load16(block + 2);
    // Value 4 j + k is pair k of byte j: the four pairs of every byte, brought together again.
    const auto p0 = hn::And(v, three), p1 = hn::And(hn::ShiftRight<2>(v), three),
               p2 = hn::And(hn::ShiftRight<4>(v), three), p3 = hn::ShiftRight<6>(v);
    const hn::Repartition<std::uint16_t, Bytes16> w;
    const auto put = [&](ByteVec first, ByteVec second, std::size_t i) HWY_ATTR {
        const auto x = hn::BitCast(w, first), y = hn::BitCast(w, second);
        put_signed(hn::Sub(hn::BitCast(b, hn::InterleaveLower(w, x, y)), one), d, to + i);
        put_signed(hn::Sub(hn::BitCast(b, hn::InterleaveUpper(w, x, y)), one), d, to + i + 16);
    };
    put(hn::InterleaveLower(b, p0, p1), hn::InterleaveLower(b, p2, p3), 0);
    put(hn::InterleaveUpper(b, p0, p1), hn::InterleaveUpper(b, p2, p3), 32);
}

HWY_INLINE void iq4_nl(const uchar* block, float* to) {
    put_looked_up(block + 2, blocks::iq4_levels, half_at(block), to);
}

HWY_INLINE void mxfp4(const uchar* block, float* to) {
    put_looked_up(block + 1, blocks::e2m1_doubled, blocks::e8m0(block[0]) * 0.5f, to);
}

/// The matrix's factor comes last.
void decode_nvfp4(const BlockRow& row, std::size_t first, std::size_t count, float* to) {
    using Block = blocks::GgufNVFP4;
    const F d;
    const Bytes16 b;
    const float factor = row.factors[0];
    const uchar* block = row.blocks + first / Block::values * Block::bytes;
    for (std::size_t i = 0; i < count; i += Block::values, block += Block::bytes, to += Block::values) {
        for (std::size_t pair = 0; pair < 2; ++pair) {  // of sub-blocks: 8 bytes each
            const auto v = load16(block + 4 + 16 * pair);
            const auto low = look_up(blocks::e2m1_doubled, low_nibbles(v)),
                       high = look_up(blocks::e2m1_doubled, high_nibbles(v));
            const uchar* scales = block + 2 * pair;
            put_signed(hn::ConcatLowerLower(b, high, low), blocks::ue4m3(scales[0]) * 0.5f, to + 32 * pair);
            put_signed(hn::ConcatUpperUpper(b, high, low), blocks::ue4m3(scales[1]) * 0.5f,
                       to + 32 * pair + 16);
        }
        if (factor == 1) continue;
        for (std::size_t k = 0; k < Block::values; k += hn::Lanes(d))
            hn::StoreU(hn::Mul(hn::LoadU(d, to + k), hn::Set(d, factor)), d, to + k);
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

// What decoders of blocks are made of: codes as bytes, 16 at a time, and bytes to floats.
#if defined(KAPITSA_DECODE_INL_) == defined(HWY_TARGET_TOGGLE)
#ifdef KAPITSA_DECODE_INL_
#undef KAPITSA_DECODE_INL_
#else
#define KAPITSA_DECODE_INL_
#endif

#include "backend/cpu/decode.h"
#include "backend/cpu/vectors-inl.h"

#if HWY_TARGET != HWY_SCALAR  // without vectors, decode_plain.cpp does it
HWY_BEFORE_NAMESPACE();
namespace kapitsa::cpu::HWY_NAMESPACE {

// All vectors of codes have 16 bytes: that is what the small blocks are cut into, and where table lookups and
// interleaving mean the same everywhere. The floats they become fill whole vectors of the target.
using Bytes16 = hn::FixedTag<std::uint8_t, 16>;
using Signed16 = hn::FixedTag<std::int8_t, 16>;
using ByteVec = hn::Vec<Bytes16>;

HWY_INLINE ByteVec load16(const uchar* from) { return hn::LoadU(Bytes16(), from); }
HWY_INLINE ByteVec low_nibbles(ByteVec v) { return hn::And(v, hn::Set(Bytes16(), 15)); }
HWY_INLINE ByteVec high_nibbles(ByteVec v) { return hn::ShiftRight<4>(v); }

/// Signed bytes from a table of 16, by codes below 16.
HWY_INLINE ByteVec look_up(const signed char* table, ByteVec codes) {
    return hn::TableLookupBytes(hn::LoadU(Bytes16(), reinterpret_cast<const uchar*>(table)), codes);
}

/// 16 bits, in order, each to a byte that is `set` or 0.
HWY_INLINE ByteVec bits_to_bytes(std::uint32_t bits, std::uint8_t set) {
    const Bytes16 d;
    HWY_ALIGN static constexpr std::uint8_t spread[16] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1};
    HWY_ALIGN static constexpr std::uint8_t place[16] = {1, 2, 4, 8, 16, 32, 64, 128,
                                                         1, 2, 4, 8, 16, 32, 64, 128};
    const auto pair = hn::BitCast(d, hn::Set(hn::FixedTag<std::uint32_t, 4>(), bits));
    const auto mine = hn::Load(d, place);
    const auto picked = hn::And(hn::TableLookupBytes(pair, hn::Load(d, spread)), mine);
    return hn::IfThenElseZero(hn::Eq(picked, mine), hn::Set(d, set));
}

/// Codes of a block on their way to floats.
template <std::size_t count>
struct CodeBytes {
    HWY_ALIGN uchar at[count];
    HWY_INLINE void put(std::size_t first, ByteVec codes) { hn::StoreU(codes, Bytes16(), at + first); }
};

/// to[i] = scale * codes[i], the codes signed.
HWY_INLINE void put_signed(const uchar* codes, std::size_t count, float scale, float* to) {
    const F d;
    const hn::Rebind<std::int8_t, F> narrow;
    const hn::RebindToSigned<F> wide;
    const auto factor = hn::Set(d, scale);
    for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
        const auto v =
            hn::PromoteTo(wide, hn::LoadU(narrow, reinterpret_cast<const std::int8_t*>(codes + i)));
        hn::StoreU(hn::Mul(hn::ConvertTo(d, v), factor), d, to + i);
    }
}

/// to[i] = scale * codes[i] + bias, the codes unsigned. The product is exact, so that a fused multiply-add
/// rounds like a multiplication and an addition.
HWY_INLINE void put_unsigned(const uchar* codes, std::size_t count, float scale, float bias, float* to) {
    const F d;
    const hn::Rebind<std::uint8_t, F> narrow;
    const hn::RebindToSigned<F> wide;
    const auto factor = hn::Set(d, scale), more = hn::Set(d, bias);
    for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
        const auto v = hn::PromoteTo(wide, hn::LoadU(narrow, codes + i));
        hn::StoreU(hn::MulAdd(hn::ConvertTo(d, v), factor, more), d, to + i);
    }
}

/// Decodes whole blocks that lie one behind the other.
template <class Block, void one(const uchar* block, float* to)>
void decode_blocks(const BlockRow& row, std::size_t first, std::size_t count, float* to) {
    const uchar* block = row.blocks + first / Block::values * Block::bytes;
    for (std::size_t i = 0; i < count; i += Block::values, block += Block::bytes) one(block, to + i);
}

}  // namespace kapitsa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif

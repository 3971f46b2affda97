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

/// Calls each(floats, place) with 16 codes, as many at a time as a vector of floats has lanes.
template <class D, class Each>
HWY_INLINE void widen16(D d8, hn::Vec<D> codes, Each each) {
    const F d;
    const hn::RebindToSigned<F> wide;
    [[maybe_unused]] const hn::Rebind<hn::TFromD<D>, F> narrow;
#if HWY_MAX_BYTES == 64
    (void)d8;
    each(hn::ConvertTo(d, hn::PromoteTo(wide, codes)), 0);
#elif HWY_MAX_BYTES == 32
    each(hn::ConvertTo(d, hn::PromoteTo(wide, hn::LowerHalf(narrow, codes))), 0);
    each(hn::ConvertTo(d, hn::PromoteTo(wide, hn::UpperHalf(narrow, codes))), 8);
    (void)d8;
#else
    HWY_ALIGN hn::TFromD<D> bytes[16];
    hn::Store(codes, d8, bytes);
    for (std::size_t i = 0; i < 16; i += hn::Lanes(d))
        each(hn::ConvertTo(d, hn::PromoteTo(wide, hn::LoadU(narrow, bytes + i))), i);
#endif
}

/// to[i] = scale * codes[i], the codes signed.
HWY_INLINE void put_signed(ByteVec codes, float scale, float* to) {
    const F d;
    const auto factor = hn::Set(d, scale);
    widen16(Signed16(), hn::BitCast(Signed16(), codes),
            [&](FloatVec v, std::size_t i) HWY_ATTR { hn::StoreU(hn::Mul(v, factor), d, to + i); });
}

/// to[i] = scale * codes[i] + bias, the codes unsigned. The product is exact, so that a fused multiply-add
/// rounds like a multiplication and an addition.
HWY_INLINE void put_unsigned(ByteVec codes, float scale, float bias, float* to) {
    const F d;
    const auto factor = hn::Set(d, scale), more = hn::Set(d, bias);
    widen16(Bytes16(), codes,
            [&](FloatVec v, std::size_t i) HWY_ATTR { hn::StoreU(hn::MulAdd(v, factor, more), d, to + i); });
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

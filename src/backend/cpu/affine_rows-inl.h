// Whole rows of MLX affine codes as floats. Included once an instruction set.
#if defined(KAPITSA_AFFINE_ROWS_INL_) == defined(HWY_TARGET_TOGGLE)
#ifdef KAPITSA_AFFINE_ROWS_INL_
#undef KAPITSA_AFFINE_ROWS_INL_
#else
#define KAPITSA_AFFINE_ROWS_INL_
#endif

#include "backend/cpu/affine-inl.h"

HWY_BEFORE_NAMESPACE();
namespace kapitsa::cpu::HWY_NAMESPACE {

/// One row of codes as floats. `room`: 2 * columns / group floats.
template <std::uint32_t bits, typename Scale>
HWY_INLINE void widen_codes(const std::uint32_t* codes, const Scale* scales, const Scale* biases,
                            std::size_t columns, std::size_t group_columns, float* room, float* y) {
    const F d;
    const std::size_t groups = columns / group_columns;
    widen(scales, groups, room);
    widen(biases, groups, room + groups);
    const std::uint32_t* end = codes + columns / 32 * bits;  // of the row: what follows may not be ours
    const Unpacker<bits> unpacker;
    for (std::size_t g = 0; g < groups; ++g) {
        const Group<bits> group(room[g], room[groups + g]);
        for (std::size_t i = 0; i < group_columns; i += 32, codes += bits) {
            const auto words = unpacker.load(codes, end);
            for (std::size_t c = 0; c < 32; c += hn::Lanes(d), y += hn::Lanes(d))
                hn::StoreU(group.weights(unpacker.codes(words, codes, c / hn::Lanes(d))), d, y);
        }
    }
}

/// Row `row` of a matrix of codes as floats.
template <typename Scale>
HWY_INLINE void widen_affine_row(const std::uint32_t* codes, const Scale* scales, const Scale* biases,
                                 std::size_t row, std::size_t columns, std::size_t group, std::uint32_t bits,
                                 float* room, float* y) {
    codes += row * (columns / 32) * bits;
    scales += row * (columns / group);
    biases += row * (columns / group);
    switch (bits) {
        case 2: return widen_codes<2>(codes, scales, biases, columns, group, room, y);
        case 3: return widen_codes<3>(codes, scales, biases, columns, group, room, y);
        case 4: return widen_codes<4>(codes, scales, biases, columns, group, room, y);
        case 5: return widen_codes<5>(codes, scales, biases, columns, group, room, y);
        case 6: return widen_codes<6>(codes, scales, biases, columns, group, room, y);
        case 8: return widen_codes<8>(codes, scales, biases, columns, group, room, y);
        default: return;  // there are no others
    }
}

}  // namespace kapitsa::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

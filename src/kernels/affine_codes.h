// MLX affine weights: w = scale * q + bias, a scale and a bias to `group` neighbouring columns. The codes of
// a row are one little-endian stream of bits in whole words.
#pragma once

#include "kernels/dialect/dialect.h"

#ifdef KERNEL_BODIES

namespace kapitsa {

/// Code i of the row of words.
BODY uint affine_code(In<uint> words, uint bits, uint i) {
    const uint first = i * bits, word = first / 32, shift = first % 32, mask = (1u << bits) - 1;
    uint code = words[word] >> shift;
    if (shift + bits > 32) code |= words[word + 1] << (32 - shift);
    return code & mask;
}

/// Column i of a row of the matrix.
template <typename Scale>
BODY float affine_value(In<uint> codes, In<Scale> scales, In<Scale> biases, uint row, uint columns,
                        uint group, uint bits, uint i) {
    const In<uint> words = codes + ulong(row) * (columns / 32 * bits);
    const ulong of_group = ulong(row) * (columns / group) + i / group;
    return fma(float(scales[of_group]), float(affine_code(words, bits, i)), float(biases[of_group]));
}

}  // namespace kapitsa

#endif

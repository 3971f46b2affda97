// The small floats that scales and codes of quantised weights are stored as.
#pragma once

#include "kernels/dialect/dialect.h"

namespace kapitsa::blocks {

/// e4m3, the kind without infinities: 1 sign, 4 exponent, 3 fraction bits. 0x7f and 0xff are NaN.
INLINE float e4m3(uint code) {
    const uint magnitude = code & 127, exponent = magnitude >> 3, fraction = magnitude & 7;
    if (magnitude == 127) return float_of_bits(0x7fc00000);
    const float value = exponent != 0 ? float_of_bits((exponent + 120) << 23 | fraction << 20)
                                      : float(fraction) * 0.001953125f;  // 2^-9
    return (code & 128) != 0 ? -value : value;
}

/// The same without its sign, as GGUF's NVFP4 has it: 0x7f is 0 there.
INLINE float ue4m3(uint code) { return code == 127 ? 0.0f : (code & 127) == 127 ? 480.0f : e4m3(code & 127); }

/// e8m0: 2^(code - 127). 255 is NaN.
INLINE float e8m0(uint code) {
    if (code == 255) return float_of_bits(0x7fc00000);
    return float_of_bits(code == 0 ? 0x00400000 : code << 23);
}

/// The magnitudes of e2m1, doubled; in codes 8 to 15 with a minus, and 8 as +0, which is how GGUF reads it.
TABLE signed char e2m1_doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/// e2m1: 1 sign, 2 exponent, 1 fraction bit. Code 8 is -0.
INLINE float e2m1(uint code) {
    const float magnitude = float(e2m1_doubled[code & 7]) * 0.5f;
    return (code & 8) != 0 ? -magnitude : magnitude;
}

/// The f16 in two bytes.
INLINE float half_at(In<uchar> bytes) { return float_of_half_bits(bytes[0] | uint(bytes[1]) << 8); }

INLINE uint word_at(In<uchar> bytes) {
    return bytes[0] | uint(bytes[1]) << 8 | uint(bytes[2]) << 16 | uint(bytes[3]) << 24;
}

/// Code i of 2 * count: the first half lies in the low nibbles of `count` bytes, the other in the high ones.
INLINE uint nibble(In<uchar> bytes, uint count, uint i) {
    return i < count ? bytes[i] & 15 : bytes[i - count] >> 4;
}

}  // namespace kapitsa::blocks

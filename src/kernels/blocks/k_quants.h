// The GGUF types with blocks of 256 values in sub-blocks, each with a small scale (and a minimum) of its own.
// `value(block, i)` as in small.h.
#pragma once

#include "kernels/blocks/scalars.h"

namespace kapitsa::blocks {

/// Two bits of value i of 256, in 64 bytes: each 32 bytes hold 128 values, 32 to a pair of bits.
INLINE uint two_bits(In<uchar> bytes, uint i) {
    return bytes[32 * (i / 128) + i % 32] >> 2 * (i % 128 / 32) & 3;
}

/// scales[16] (scale and minimum in a nibble each), codes[64], d, dmin.
struct Q2_K {
    enum : uint { values = 256, bytes = 84, scales = 0, apart = 0 };
    static INLINE float value(In<uchar> block, uint i) {
        const uint packed = block[i / 16];
        const float scale = half_at(block + 80) * float(packed & 15),
                    minimum = half_at(block + 82) * float(packed >> 4);
        return scale * float(two_bits(block + 16, i)) - minimum;
    }
};

/// Third bits[32] (a bit not set takes 4 away), codes[64], scales[12] of 6 bits, d.
struct Q3_K {
    enum : uint { values = 256, bytes = 110, scales = 0, apart = 0 };
    static INLINE uint scale(In<uchar> packed, uint k) {
        return nibble(packed, 8, k) | (packed[8 + k % 4] >> 2 * (k / 4) & 3) << 4;
    }
    static INLINE float value(In<uchar> block, uint i) {
        const int code = int(two_bits(block + 32, i)) - ((block[i % 32] >> i / 32 & 1) != 0 ? 0 : 4);
        return half_at(block + 108) * float(int(scale(block + 96, i / 16)) - 32) * float(code);
    }
};

/// Scale and minimum k of 8, 6 bits each in 12 bytes.
INLINE uint six_bit_scale(In<uchar> packed, uint k) {
    return k < 4 ? packed[k] & 63 : (packed[k + 4] & 15) | (packed[k - 4] >> 6) << 4;
}
INLINE uint six_bit_minimum(In<uchar> packed, uint k) {
    return k < 4 ? packed[k + 4] & 63 : packed[k + 4] >> 4 | (packed[k] >> 6) << 4;
}

/// d, dmin, scales[12], codes[128]: each 32 bytes hold 64 values, low nibbles first.
struct Q4_K {
    enum : uint { values = 256, bytes = 144, scales = 0, apart = 0 };
    static INLINE float value(In<uchar> block, uint i) {
        const uint k = i / 32, code = nibble(block + 16 + 32 * (i / 64), 32, i % 64);
        const float scale = half_at(block) * float(six_bit_scale(block + 4, k)),
                    minimum = half_at(block + 2) * float(six_bit_minimum(block + 4, k));
        return scale * float(code) - minimum;
    }
};

/// d, dmin, scales[12], fifth bits[32], codes[128].
struct Q5_K {
    enum : uint { values = 256, bytes = 176, scales = 0, apart = 0 };
    static INLINE float value(In<uchar> block, uint i) {
        const uint k = i / 32, fifth = block[16 + i % 32] >> k & 1,
                   code = nibble(block + 48 + 32 * (i / 64), 32, i % 64) | fifth << 4;
        const float scale = half_at(block) * float(six_bit_scale(block + 4, k)),
                    minimum = half_at(block + 2) * float(six_bit_minimum(block + 4, k));
        return scale * float(code) - minimum;
    }
};

/// Low nibbles[128], upper pairs of bits[64], signed scales[16], d. A half of 128 values has 64 and 32 bytes.
struct Q6_K {
    enum : uint { values = 256, bytes = 210, scales = 0, apart = 0 };
    static INLINE float value(In<uchar> block, uint i) {
        const uint part = i / 128, j = i % 128, low = nibble(block + 64 * part, 64, j),
                   upper = block[128 + 32 * part + j % 32] >> 2 * (j / 32) & 3;
        const float scale = half_at(block + 208) * float(static_cast<signed char>(block[192 + i / 16]));
        return scale * float(int(low | upper << 4) - 32);
    }
};

/// Ternary, five to a byte: qs[48], qh[4], d. A byte holds digits of base 3 as a fraction of 256.
struct TQ1_0 {
    enum : uint { values = 256, bytes = 54, scales = 0, apart = 0 };
    static INLINE int digit(uint byte, uint n) {
        uint power = 1;
        for (uint k = 0; k < n; ++k) power *= 3;
        return int((byte * power % 256) * 3 >> 8) - 1;
    }
    static INLINE float value(In<uchar> block, uint i) {
        const float d = half_at(block + 52);
        if (i < 160) return d * float(digit(block[i % 32], i / 32));
        if (i < 240) return d * float(digit(block[32 + (i - 160) % 16], (i - 160) / 16));
        return d * float(digit(block[48 + (i - 240) % 4], (i - 240) / 4));
    }
};

/// Ternary in two bits: codes[64], d.
struct TQ2_0 {
    enum : uint { values = 256, bytes = 66, scales = 0, apart = 0 };
    static INLINE float value(In<uchar> block, uint i) {
        return half_at(block + 64) * float(int(two_bits(block, i)) - 1);
    }
};

}  // namespace kapitsa::blocks

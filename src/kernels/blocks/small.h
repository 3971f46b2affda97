// The GGUF block types of up to 128 values: a scale or two, then codes. `value(block, i)` is value i of the
// block at that place, with the bits of the format's reference: every product here is exact in f32, and what
// is added is rounded once.
#pragma once

#include "kernels/blocks/scalars.h"

namespace kapitsa::blocks {

/// d, 16 bytes of codes in halves: d * (q - 8).
struct Q4_0 {
    enum : uint { values = 32, bytes = 18, scales = 0, apart = 0 };
    static INLINE float value(In<uchar> block, uint i) {
        return half_at(block) * float(int(nibble(block + 2, 16, i)) - 8);
    }
};

/// d, m, codes: d * q + m.
struct Q4_1 {
    enum : uint { values = 32, bytes = 20, scales = 0, apart = 0 };
    static INLINE float value(In<uchar> block, uint i) {
        return half_at(block) * float(nibble(block + 4, 16, i)) + half_at(block + 2);
    }
};

/// d, the fifth bits of all codes, the other four: d * (q - 16).
struct Q5_0 {
    enum : uint { values = 32, bytes = 22, scales = 0, apart = 0 };
    static INLINE float value(In<uchar> block, uint i) {
        const uint code = nibble(block + 6, 16, i) | (word_at(block + 2) >> i & 1) << 4;
        return half_at(block) * float(int(code) - 16);
    }
};

/// d, m, fifth bits, codes: d * q + m.
struct Q5_1 {
    enum : uint { values = 32, bytes = 24, scales = 0, apart = 0 };
    static INLINE float value(In<uchar> block, uint i) {
        const uint code = nibble(block + 8, 16, i) | (word_at(block + 4) >> i & 1) << 4;
        return half_at(block) * float(code) + half_at(block + 2);
    }
};

/// d, codes of one signed byte: d * q.
struct Q8_0 {
    enum : uint { values = 32, bytes = 34, scales = 0, apart = 0 };
    static INLINE float value(In<uchar> block, uint i) {
        return half_at(block) * float(static_cast<signed char>(block[2 + i]));
    }
};

/// d, a bit a value: d or -d.
struct Q1_0 {
    enum : uint { values = 128, bytes = 18, scales = 0, apart = 0 };
    static INLINE float value(In<uchar> block, uint i) {
        const float d = half_at(block);
        return (block[2 + i / 8] >> i % 8 & 1) != 0 ? d : -d;
    }
};

/// d, two bits a value in order: (q - 1) * d.
struct Q2_0 {
    enum : uint { values = 64, bytes = 18, scales = 0, apart = 0 };
    static INLINE float value(In<uchar> block, uint i) {
        return half_at(block) * float(int(block[2 + i / 4] >> 2 * (i % 4) & 3) - 1);
    }
};

/// What a code of IQ4_NL and IQ4_XS stands for.
TABLE signed char iq4_levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

/// d, codes in halves: d * level.
struct IQ4_NL {
    enum : uint { values = 32, bytes = 18, scales = 0, apart = 0 };
    static INLINE float value(In<uchar> block, uint i) {
        return half_at(block) * float(iq4_levels[nibble(block + 2, 16, i)]);
    }
};

/// e8m0, codes in halves. (MLX and compressed-tensors lay the same numbers differently: apart.h.)
struct GgufMXFP4 {
    enum : uint { values = 32, bytes = 17, scales = 0, apart = 0 };
    static INLINE float value(In<uchar> block, uint i) {
        return float(e2m1_doubled[nibble(block + 1, 16, i)]) * (e8m0(block[0]) * 0.5f);
    }
};

/// Four scales of 16 values each, then their codes, in halves of each 16. The whole matrix may have a factor.
struct GgufNVFP4 {
    enum : uint { values = 64, bytes = 36, scales = 0, apart = 0 };
    static INLINE float value(In<uchar> block, uint i) {
        const uint k = i / 16;
        return float(e2m1_doubled[nibble(block + 4 + 8 * k, 8, i % 16)]) * (ue4m3(block[k]) * 0.5f);
    }
};

}  // namespace kapitsa::blocks

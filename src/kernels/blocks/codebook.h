// The GGUF types whose values come out of tables: IQ4_XS, and those with codebooks of patterns (iq_grids.h)
// with signs beside them. `value(block, i)` as in small.h.
#pragma once

#include "kernels/blocks/iq_grids.h"
#include "kernels/blocks/small.h"

namespace kapitsa::blocks {

/// Signs of eight values: seven bits, and the eighth makes the number of minus signs even.
INLINE uint even_signs(uint seven) {
    uint parity = seven ^ seven >> 4;
    parity ^= parity >> 2;
    parity ^= parity >> 1;
    return (seven & 127) | (parity & 1) << 7;
}

INLINE float signed_by(float magnitude, uint signs, uint j) {
    return (signs >> j & 1) != 0 ? -magnitude : magnitude;
}
INLINE float iq2_level(uint entry, uint j) { return float(iq2_levels[entry >> 2 * j & 3]); }
INLINE float iq3_xxs_level(uint entry, uint j) { return float(iq3_xxs_levels[entry >> 3 * j & 7]); }
INLINE float iq3_s_level(uint entry, uint j) { return float(2 * (entry >> 3 * j & 7) + 1); }

/// d, upper bits of the scales (u16), lower ones[4], codes[128] of eight sub-blocks.
struct IQ4_XS {
    enum : uint { values = 256, bytes = 136, scales = 0, apart = 0 };
    static INLINE int scale(In<uchar> block, uint k) {
        const uint upper = (block[2] | uint(block[3]) << 8) >> 2 * k & 3;
        return int((block[4 + k / 2] >> 4 * (k % 2) & 15) | upper << 4) - 32;
    }
    static INLINE float value(In<uchar> block, uint i) {
        const uint k = i / 32, code = nibble(block + 8 + 16 * k, 16, i % 32);
        return half_at(block) * float(scale(block, k)) * float(iq4_levels[code]);
    }
};

/// d, then for each sub-block of 32: four indices, and a word of four times seven signs and a scale.
struct IQ2_XXS {
    enum : uint { values = 256, bytes = 66, scales = 0, apart = 0 };
    static INLINE float scale(float d, uint nibble) { return d * (0.5f + float(nibble)) * 0.25f; }
    static INLINE float value(In<uchar> block, uint i) {
        const In<uchar> part = block + 2 + 8 * (i / 32);
        const uint l = i % 32 / 8, word = word_at(part + 4);
        return signed_by(scale(half_at(block), word >> 28) * iq2_level(iq2_xxs_grid[part[l]], i % 8),
                         even_signs(word >> 7 * l & 127), i % 8);
    }
};

/// d, 32 pairs of an index (9 bits) and seven signs, scales[8] of a nibble for 16 values.
struct IQ2_XS {
    enum : uint { values = 256, bytes = 74, scales = 0, apart = 0 };
    static INLINE float value(In<uchar> block, uint i) {
        const In<uchar> pair = block + 2 + 2 * (i / 8);
        const uint code = pair[0] | uint(pair[1]) << 8, nibble = block[66 + i / 32] >> 4 * (i % 32 / 16) & 15;
        return signed_by(IQ2_XXS::scale(half_at(block), nibble) * iq2_level(iq2_xs_grid[code & 511], i % 8),
                         even_signs(code >> 9), i % 8);
    }
};

/// d, indices[32], signs[32], upper two bits of the indices[8], scales[8].
struct IQ2_S {
    enum : uint { values = 256, bytes = 82, scales = 0, apart = 0 };
    static INLINE float value(In<uchar> block, uint i) {
        const uint k = i / 32, l = i % 32 / 8, upper = block[66 + k] >> 2 * l & 3,
                   nibble = block[74 + k] >> 4 * (l / 2) & 15;
        return signed_by(IQ2_XXS::scale(half_at(block), nibble) *
                             iq2_level(iq2_s_grid[block[2 + i / 8] | upper << 8], i % 8),
                         block[34 + i / 8], i % 8);
    }
};

/// d, indices[64] of four values each, eight words of signs and scale.
struct IQ3_XXS {
    enum : uint { values = 256, bytes = 98, scales = 0, apart = 0 };
    static INLINE float value(In<uchar> block, uint i) {
        const uint l = i % 32 / 8, word = word_at(block + 66 + 4 * (i / 32));
        const float scale = half_at(block) * (0.5f + float(word >> 28)) * 0.5f;
        return signed_by(scale * iq3_xxs_level(iq3_xxs_grid[block[2 + i / 4]], i % 4),
                         even_signs(word >> 7 * l & 127), i % 8);
    }
};

/// d, indices[64], their ninth bits[8], signs[32], scales[4].
struct IQ3_S {
    enum : uint { values = 256, bytes = 110, scales = 0, apart = 0 };
    static INLINE float value(In<uchar> block, uint i) {
        const uint k = i / 32, ninth = block[66 + k] >> i % 32 / 4 & 1,
                   nibble = block[106 + k / 2] >> 4 * (k % 2) & 15;
        const float scale = half_at(block) * float(1 + 2 * nibble);
        return signed_by(scale * iq3_s_level(iq3_s_grid[block[2 + i / 4] | ninth << 8], i % 4),
                         block[74 + i / 8], i % 8);
    }
};

}  // namespace kapitsa::blocks

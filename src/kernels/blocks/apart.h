// Quantised forms of safetensors files whose scales lie in tensors of their own: MLX's fp modes, ModelOpt and
// compressed-tensors. `value(block, scale, factor, i)` is value i of the block whose scale byte is `scale`;
// `factor` is the f32 of the matrix (of the channel, or of the tile) where there is one, else 1.
// Codes of 4 bits lie in pairs: the even column is the low nibble.
#pragma once

#include "kernels/blocks/scalars.h"

namespace kapitsa::blocks {

/// e2m1 with e4m3 to 16 values and a factor. Scale and factor are multiplied first, as ModelOpt does.
struct NVFP4 {
    enum : uint { values = 16, bytes = 8, scales = 1, apart = 1 };
    static INLINE float scale(uint code) { return e4m3(code); }
    static INLINE float value(In<uchar> block, uint scale, float factor, uint i) {
        return e2m1(block[i / 2] >> 4 * (i % 2) & 15) * (e4m3(scale) * factor);
    }
};

/// e2m1 with e8m0 to 32 values.
struct MXFP4 {
    enum : uint { values = 32, bytes = 16, scales = 1, apart = 1 };
    static INLINE float value(In<uchar> block, uint scale, float factor, uint i) {
        return e2m1(block[i / 2] >> 4 * (i % 2) & 15) * (e8m0(scale) * factor);
    }
};

/// e4m3 with e8m0 to 32 values.
struct MXFP8 {
    enum : uint { values = 32, bytes = 32, scales = 1, apart = 1 };
    static INLINE float value(In<uchar> block, uint scale, float factor, uint i) {
        return e4m3(block[i]) * (e8m0(scale) * factor);
    }
};

/// e4m3 with a factor for the matrix, for each row, or for each tile of rows and columns.
struct FP8 {
    enum : uint { values = 1, bytes = 1, scales = 0, apart = 1 };
    static INLINE float value(In<uchar> block, uint, float factor, uint i) { return e4m3(block[i]) * factor; }
};

}  // namespace kapitsa::blocks

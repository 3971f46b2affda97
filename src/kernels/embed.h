// y = the embedding of each row's token.
#pragma once

#include "kernels/dialect/host.h"

namespace kapitsa {

template <typename T>
struct Embed {
    In<T> table;     // [vocabulary, columns]
    In<int> tokens;  // [rows]
    Out<float> y;    // [rows, columns]
    uint rows, columns;
};

/// MLX affine: w = scale * q + bias, `group` neighbouring columns to a scale and a bias.
/// Codes are one little-endian stream of bits a row.
template <typename Scale>
struct EmbedAffine {
    In<uint> codes;    // [vocabulary, columns * bits / 32]
    In<Scale> scales;  // [vocabulary, columns / group]
    In<Scale> biases;  // [vocabulary, columns / group]
    In<int> tokens;    // [rows]
    Out<float> y;      // [rows, columns]
    uint rows, columns, group, bits;
};

ENTRY(embed_f32, Embed<float>)
ENTRY(embed_f16, Embed<half>)
ENTRY(embed_bf16, Embed<bfloat>)
ENTRY(embed_affine_f32, EmbedAffine<float>)
ENTRY(embed_affine_f16, EmbedAffine<half>)
ENTRY(embed_affine_bf16, EmbedAffine<bfloat>)

}  // namespace kapitsa

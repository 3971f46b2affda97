// y = the embedding of each row's token.
#pragma once

#include "kernels/affine_codes.h"
#include "kernels/dialect/dialect.h"

namespace kapitsa {

template <typename T>
struct Embed {
    In<T> table;     // [vocabulary, columns]
    In<int> tokens;  // [rows]
    Out<float> y;    // [rows, columns]
    uint rows, columns;
};
GRID_OF_ANY(T, Embed<T>, args.rows, parts_of(args.columns, 256), 1, 256)

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
GRID_OF_ANY(Scale, EmbedAffine<Scale>, args.rows, parts_of(args.columns, 256), 1, 256)

#ifdef KERNEL_BODIES

template <typename T>
BODY void embed(Args<Embed<T>> args, Position at, Shared<None>) {
    const uint i = at.group.y * 256 + at.index, row = at.group.x;
    if (i < args.columns)
        args.y[ulong(row) * args.columns + i] = float(args.table[ulong(args.tokens[row]) * args.columns + i]);
}

template <typename Scale>
BODY void embed_affine(Args<EmbedAffine<Scale>> args, Position at, Shared<None>) {
    const uint i = at.group.y * 256 + at.index, row = at.group.x;
    if (i < args.columns)
        args.y[ulong(row) * args.columns + i] =
            affine_value(args.codes, args.scales, args.biases, uint(args.tokens[row]), args.columns,
                         args.group, args.bits, i);
}

#endif

ENTRY(embed_f32, embed, Embed<float>, None)
ENTRY(embed_f16, embed, Embed<half>, None)
ENTRY(embed_bf16, embed, Embed<bfloat>, None)
ENTRY(embed_affine_f32, embed_affine, EmbedAffine<float>, None)
ENTRY(embed_affine_f16, embed_affine, EmbedAffine<half>, None)
ENTRY(embed_affine_bf16, embed_affine, EmbedAffine<bfloat>, None)

}  // namespace kapitsa

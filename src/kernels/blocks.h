// Matrix products and embeddings of weights in blocks (kernels/blocks/): one argument struct for all forms,
// an entry for each. As in multiply.h, a row's sum is taken in one order whatever the number of rows.
#pragma once

#include "kernels/blocks/forms.h"
#include "kernels/multiply_experts.h"

namespace kapitsa {

/// How the f32 factors of a form that has them cover a matrix: one to a tile. Row r and column c have the
/// factor [r / rows, c / columns], in a matrix of ceil(all columns / columns) columns. 0 means all of them.
struct FactorTile {
    uint rows, columns;
};

struct MultiplyBlocks {
    struct Part {
        In<uchar> blocks;   // [outputs, row_bytes]
        In<uchar> scales;   // [outputs, scale_bytes] of a form whose scales lie apart; else null
        In<float> factors;  // by `tile`, or null: 1
        In<float> add;      // [rows, outputs], or null
        Out<float> y;       // [rows, outputs]; may be `add`
        uint outputs, unused;
    };
    Part parts[multiply_parts];
    In<float> x;  // [rows, columns]
    uint count, rows, columns;
    uint row_bytes, scale_bytes;  // of one row of the matrix
    FactorTile tile;              // of a form that is not fp8: {0, 0}
};

GRID(MultiplyBlocks, output_blocks(args), parts_of(args.rows, multiply_rows_at_once), 1,
     multiply_simdgroups * 32)

struct EmbedBlocks {
    In<uchar> blocks;   // [vocabulary, row_bytes]
    In<uchar> scales;   // [vocabulary, scale_bytes], or null
    In<float> factors;  // by `tile`, or null
    In<int> tokens;     // [rows]
    Out<float> y;       // [rows, columns]
    uint rows, columns, row_bytes, scale_bytes;
    FactorTile tile;
};

GRID(EmbedBlocks, args.rows, parts_of(args.columns, 256), 1, 256)

/// As Lookup of kernels/ngrams.h.
struct LookupBlocks {
    In<MultiplyBlocks::Part> parts;  // nothing but blocks, scales and factors is read
    In<uint> picked;                 // [rows]
    Out<float> y;                    // [rows, columns]
    uint rows, columns, part_rows, row_bytes, scale_bytes;
    FactorTile tile;
};

GRID(LookupBlocks, args.rows, parts_of(args.columns, 256), 1, 256)

#ifdef KERNEL_BODIES

/// Where one row of a matrix lies, and what its factors are.
struct BlockRow {
    In<uchar> blocks, scales;
    In<float> factors;  // of the row; null: 1
    uint tile_columns;  // of a factor
};

BODY BlockRow block_row(In<uchar> blocks, In<uchar> scales, In<float> factors, uint row_bytes,
                        uint scale_bytes, FactorTile tile, uint row, uint columns) {
    BlockRow of_row;
    of_row.blocks = blocks + ulong(row) * row_bytes;
    of_row.scales = scales ? scales + ulong(row) * scale_bytes : scales;
    of_row.tile_columns = tile.columns != 0 ? tile.columns : columns;
    const ulong down = tile.rows != 0 ? row / tile.rows : 0;
    of_row.factors =
        factors ? factors + down * ((columns + of_row.tile_columns - 1) / of_row.tile_columns) : factors;
    return of_row;
}

template <class Block, uint apart>
struct BlockValue;
template <class Block>
struct BlockValue<Block, 0> {
    static BODY float get(BlockRow row, uint number, float factor, uint i) {
        return Block::value(row.blocks + number * Block::bytes, i) * factor;
    }
};
template <class Block>
struct BlockValue<Block, 1> {
    static BODY float get(BlockRow row, uint number, float factor, uint i) {
        return Block::value(row.blocks + number * Block::bytes, Block::scales != 0 ? row.scales[number] : 0u,
                            factor, i);
    }
};

/// Column c of the row.
template <class Block>
BODY float block_value(BlockRow row, uint c) {
    const float factor = row.factors ? row.factors[c / row.tile_columns] : 1.0f;
    return BlockValue<Block, Block::apart>::get(row, c / Block::values, factor, c % Block::values);
}

template <class Block>
struct BlocksForm {
    using Matrix = MultiplyBlocks;
    static BODY void read(Args<Matrix> matrix, Matrix::Part part, uint output, uint column, Local<float> w) {
        const BlockRow row = block_row(part.blocks, part.scales, part.factors, matrix.row_bytes,
                                       matrix.scale_bytes, matrix.tile, output, matrix.columns);
        UNROLL for (uint i = 0; i < multiply_span; ++i) w[i] =
            column + i < matrix.columns ? block_value<Block>(row, column + i) : 0.0f;
    }
};

template <class Block>
BODY void embed_of_blocks(Args<EmbedBlocks> args, Position at, Shared<None>) {
    const uint i = at.group.y * 256 + at.index, row = at.group.x;
    if (i >= args.columns) return;
    args.y[ulong(row) * args.columns + i] =
        block_value<Block>(block_row(args.blocks, args.scales, args.factors, args.row_bytes, args.scale_bytes,
                                     args.tile, uint(args.tokens[row]), args.columns),
                           i);
}

template <class Block>
BODY void lookup_of_blocks(Args<LookupBlocks> args, Position at, Shared<None>) {
    const uint i = at.group.y * 256 + at.index, row = at.group.x, picked = args.picked[row];
    if (i >= args.columns) return;
    const MultiplyBlocks::Part part = args.parts[picked / args.part_rows];
    args.y[ulong(row) * args.columns + i] =
        block_value<Block>(block_row(part.blocks, part.scales, part.factors, args.row_bytes, args.scale_bytes,
                                     args.tile, picked % args.part_rows, args.columns),
                           i);
}

#endif

#define BLOCK_ENTRIES(form, Type)                                                               \
    ENTRY(multiply_##form, multiply<BlocksForm<blocks::Type>>, MultiplyBlocks, MultiplyScratch) \
    ENTRY(multiply_experts_##form, multiply_experts<BlocksForm<blocks::Type>>,                  \
          MultiplyExperts<MultiplyBlocks>, MultiplyScratch)                                     \
    ENTRY(embed_##form, embed_of_blocks<blocks::Type>, EmbedBlocks, None)                       \
    ENTRY(lookup_##form, lookup_of_blocks<blocks::Type>, LookupBlocks, None)
BLOCK_FORMS(BLOCK_ENTRIES)
#undef BLOCK_ENTRIES

#ifdef KERNEL_HOST
// The same by number of the form.
constexpr Kernel<MultiplyBlocks> multiply_blocks[] = {
#define BLOCK_KERNEL(form, Type) multiply_##form,
    BLOCK_FORMS(BLOCK_KERNEL)
#undef BLOCK_KERNEL
};
constexpr Kernel<MultiplyExperts<MultiplyBlocks>> multiply_experts_blocks[] = {
#define BLOCK_KERNEL(form, Type) multiply_experts_##form,
    BLOCK_FORMS(BLOCK_KERNEL)
#undef BLOCK_KERNEL
};
constexpr Kernel<LookupBlocks> lookup_blocks[] = {
#define BLOCK_KERNEL(form, Type) lookup_##form,
    BLOCK_FORMS(BLOCK_KERNEL)
#undef BLOCK_KERNEL
};
constexpr Kernel<EmbedBlocks> embed_blocks[] = {
#define BLOCK_KERNEL(form, Type) embed_##form,
    BLOCK_FORMS(BLOCK_KERNEL)
#undef BLOCK_KERNEL
};
#endif

}  // namespace kapitsa

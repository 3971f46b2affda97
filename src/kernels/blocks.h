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

struct EmbedBlocks {
    In<uchar> blocks;   // [vocabulary, row_bytes]
    In<uchar> scales;   // [vocabulary, scale_bytes], or null
    In<float> factors;  // by `tile`, or null
    In<int> tokens;     // [rows]
    Out<float> y;       // [rows, columns]
    uint rows, columns, row_bytes, scale_bytes;
    FactorTile tile;
};

/// As Lookup of kernels/ngrams.h.
struct LookupBlocks {
    In<MultiplyBlocks::Part> parts;  // nothing but blocks, scales and factors is read
    In<uint> picked;                 // [rows]
    Out<float> y;                    // [rows, columns]
    uint rows, columns, part_rows, row_bytes, scale_bytes;
    FactorTile tile;
};

#define BLOCK_ENTRIES(form, Type)                                   \
    ENTRY(multiply_##form, MultiplyBlocks)                          \
    ENTRY(multiply_experts_##form, MultiplyExperts<MultiplyBlocks>) \
    ENTRY(embed_##form, EmbedBlocks)                                \
    ENTRY(lookup_##form, LookupBlocks)
BLOCK_FORMS(BLOCK_ENTRIES)
#undef BLOCK_ENTRIES

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

}  // namespace kapitsa

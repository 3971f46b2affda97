// Rows of weights in blocks, made floats. One decoder a form, compiled for every instruction set; all of them
// give the bits of kernels/blocks/.
#pragma once

#include <cstddef>
#include <type_traits>

#include "kernels/blocks.h"

namespace kapitsa::cpu {

/// One row of a matrix.
struct BlockRow {
    const uchar* blocks;
    const uchar* scales;         // null where they do not lie apart
    const float* factors;        // of the row's tiles; never null
    std::size_t factor_columns;  // columns to a factor
};

/// Where the rows of a matrix lie.
class BlockMatrix {
public:
    BlockMatrix(const uchar* blocks, const uchar* scales, const float* factors, std::size_t row_bytes,
                std::size_t scale_bytes, const FactorTile& tile, std::size_t columns)
        : blocks_(blocks),
          scales_(scales),
          factors_(factors ? factors : &one),
          row_bytes_(row_bytes),
          scale_bytes_(scale_bytes),
          tile_rows_(tile.rows),
          tile_columns_(tile.columns ? tile.columns : columns),
          row_tiles_((columns + tile_columns_ - 1) / tile_columns_) {}

    BlockRow row(std::size_t row) const {
        const std::size_t tile_row = tile_rows_ ? row / tile_rows_ : 0;
        return {blocks_ + row * row_bytes_, scales_ ? scales_ + row * scale_bytes_ : nullptr,
                factors_ + tile_row * row_tiles_, tile_columns_};
    }

private:
    static constexpr float one = 1;
    const uchar *blocks_, *scales_;
    const float* factors_;
    std::size_t row_bytes_, scale_bytes_, tile_rows_, tile_columns_, row_tiles_;
};

/// Columns [first, first + count) as floats. `first` is a multiple of decode_columns, and so is count unless
/// the row ends there; what lies beyond `to[count]` is not touched.
using Decode = void (*)(const BlockRow& row, std::size_t first, std::size_t count, float* to);
constexpr std::size_t decode_columns = 256;  // every block's number of values divides it

/// Of the best instruction set that is here; null where the file does not have the form, or the processor no
/// vectors.
Decode small_decoder(BlockForm form);
Decode k_decoder(BlockForm form);
Decode codebook_decoder(BlockForm form);
Decode apart_decoder(BlockForm form);

/// Value by value, as kernels/blocks/ has them. Never null.
Decode plain_decoder(BlockForm form);

/// The best there is. Never null.
Decode decoder(BlockForm form);

}  // namespace kapitsa::cpu

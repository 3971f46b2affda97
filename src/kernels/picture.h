// What only pictures need: pixels to numbers, and where in its picture a patch lies. The patches of a block
// of block x block stand together, blocks row by row, and so do the patches of a block.
#pragma once

#include "kernels/dialect/host.h"

namespace kapitsa {

/// y = pixel * scale + shift, by channel; and each channel as often as a film would have frames.
struct PatchPixels {
    In<uchar> pixels;  // [patches, 3, area]
    Out<float> y;      // [patches, 3, frames, area]
    uint patches, frames, area;
    float scale[3], shift[3];
};

/// x += the position of each patch, taken from a learned square of positions that is stretched over the grid:
/// corner on corner, and between its places bilinear.
struct GridPositions {
    In<float> table;  // [table_side, table_side, columns]
    Out<float> x;     // [grid_rows * grid_columns, columns]
    uint table_side, grid_rows, grid_columns, block, columns;
};

ENTRY(patch_pixels_f32, PatchPixels)
ENTRY(grid_positions_f32, GridPositions)

}  // namespace kapitsa

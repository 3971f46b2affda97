// What only pictures need: pixels to numbers, and where in its picture a patch lies. The patches of a block
// of block x block stand together, blocks row by row, and so do the patches of a block.
#pragma once

#include "kernels/dialect/dialect.h"

namespace kapitsa {

/// y = pixel * scale + shift, by channel; and each channel as often as a film would have frames.
struct PatchPixels {
    In<uchar> pixels;  // [patches, 3, area]
    Out<float> y;      // [patches, 3, frames, area]
    uint patches, frames, area;
    float scale[3], shift[3];
};
GRID(PatchPixels, args.patches, parts_of(3 * args.frames * args.area, 256), 1, 256)

/// x += the position of each patch, taken from a learned square of positions that is stretched over the grid:
/// corner on corner, and between its places bilinear.
struct GridPositions {
    In<float> table;  // [table_side, table_side, columns]
    Out<float> x;     // [grid_rows * grid_columns, columns]
    uint table_side, grid_rows, grid_columns, block, columns;
};
GRID(GridPositions, args.grid_rows* args.grid_columns, parts_of(args.columns, 256), 1, 256)

#ifdef KERNEL_BODIES

BODY void patch_pixels(Args<PatchPixels> args, Position at, Shared<None>) {
    const uint of_patch = 3 * args.frames * args.area, i = at.group.y * 256 + at.index;
    if (i >= of_patch) return;
    const ulong patch = at.group.x;
    const uint channel = i / (args.frames * args.area), place = i % args.area;
    const float pixel = float(args.pixels[(patch * 3 + channel) * args.area + place]);
    args.y[patch * of_patch + i] = pixel * args.scale[channel] + args.shift[channel];
}

/// Two neighbouring places of the table, and how far from the first one.
struct Between {
    uint low, high;
    float part;
};
BODY Between between(uint at, uint count, uint table_side) {
    const float source = count > 1 ? float(at) * (float(table_side - 1) / float(count - 1)) : 0.0f;
    const uint low = min(uint(source), table_side - 1);
    return Between{low, min(low + 1, table_side - 1), source - float(low)};
}

BODY void grid_positions(Args<GridPositions> args, Position at, Shared<None>) {
    const uint patch = at.group.x, i = at.group.y * 256 + at.index;
    if (i >= args.columns) return;
    const uint in_block = args.block * args.block, blocks_across = args.grid_columns / args.block;
    const uint block = patch / in_block, place = patch % in_block;
    const Between y =
        between(block / blocks_across * args.block + place / args.block, args.grid_rows, args.table_side);
    const Between x =
        between(block % blocks_across * args.block + place % args.block, args.grid_columns, args.table_side);
    const In<float> upper = args.table + ulong(y.low) * args.table_side * args.columns + i,
                    lower = args.table + ulong(y.high) * args.table_side * args.columns + i;
    args.x[ulong(patch) * args.columns + i] += (1 - y.part) * (1 - x.part) * upper[x.low * args.columns] +
                                               (1 - y.part) * x.part * upper[x.high * args.columns] +
                                               y.part * (1 - x.part) * lower[x.low * args.columns] +
                                               y.part * x.part * lower[x.high * args.columns];
}

#endif

ENTRY(patch_pixels_f32, patch_pixels, PatchPixels, None)
ENTRY(grid_positions_f32, grid_positions, GridPositions, None)

}  // namespace kapitsa

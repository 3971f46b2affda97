// The native twin of kernels/picture.h: little work beside the layers that follow, so plain loops.
#include "kernels/picture.h"

#include <algorithm>

#include "backend/cpu/native.h"

namespace kapitsa::cpu {
namespace {

std::uint32_t patches_of(const PatchPixels& args) { return args.patches; }
void run_pixels(const PatchPixels& args, std::uint32_t first, std::uint32_t last, Scratch&) {
    constexpr std::size_t channels = 3;
    for (std::size_t patch = first; patch < last; ++patch)
        for (std::size_t c = 0; c < channels; ++c) {
            const uchar* pixels = args.pixels + (patch * channels + c) * args.area;
            float* y = args.y + (patch * channels + c) * args.frames * args.area;
            for (std::size_t frame = 0; frame < args.frames; ++frame, y += args.area)
                for (std::size_t i = 0; i < args.area; ++i)
                    y[i] = float(pixels[i]) * args.scale[c] + args.shift[c];
        }
}

/// Two neighbouring places of the table, and how far from the first one.
struct Between {
    std::size_t low, high;
    float part;

    Between(std::uint32_t at, std::uint32_t count, std::uint32_t table_side) {
        const float source = count > 1 ? float(at) * (float(table_side - 1) / float(count - 1)) : 0.0f;
        low = std::min(std::size_t(source), std::size_t(table_side - 1));
        high = std::min(low + 1, std::size_t(table_side - 1));
        part = source - float(low);
    }
};

std::uint32_t grid_patches(const GridPositions& args) { return args.grid_rows * args.grid_columns; }
void run_positions(const GridPositions& args, std::uint32_t first, std::uint32_t last, Scratch&) {
    const std::size_t columns = args.columns;
    const uint in_block = args.block * args.block, blocks_across = args.grid_columns / args.block;
    for (uint patch = first; patch < last; ++patch) {
        const uint block = patch / in_block, place = patch % in_block;
        const Between y(block / blocks_across * args.block + place / args.block, args.grid_rows,
                        args.table_side);
        const Between x(block % blocks_across * args.block + place % args.block, args.grid_columns,
                        args.table_side);
        const auto row = [&](std::size_t down, std::size_t across) {
            return args.table + (down * args.table_side + across) * columns;
        };
        const float *a = row(y.low, x.low), *b = row(y.low, x.high), *c = row(y.high, x.low),
                    *d = row(y.high, x.high);
        float* to = args.x + patch * columns;
        for (std::size_t i = 0; i < columns; ++i)
            to[i] += (1 - y.part) * (1 - x.part) * a[i] + (1 - y.part) * x.part * b[i] +
                     y.part * (1 - x.part) * c[i] + y.part * x.part * d[i];
    }
}

constexpr Native natives[] = {
    native<patches_of, run_pixels>(patch_pixels_f32),
    native<grid_patches, run_positions>(grid_positions_f32),
};

}  // namespace

std::span<const Native> picture_natives() { return natives; }

}  // namespace kapitsa::cpu

// Makes floats weights in blocks, as the writers of checkpoints do, and says what those stand for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/blocks/forms.h"

namespace kapitsa {

struct QuantizedBlocks {
    std::vector<std::byte> codes, scales;  // row by row
    std::vector<float> factors;            // of fp8: by tile
    std::vector<float> restored;           // what a reader gets
};

/// nvfp4, mxfp4 or mxfp8. `factor` multiplies the whole matrix: that of NVFP4 with two scales, else 1.
QuantizedBlocks quantized(BlockForm form, const std::vector<float>& values, float factor = 1);
/// fp8, with a scale to each tile of a matrix of `columns`.
QuantizedBlocks quantized_fp8(const std::vector<float>& values, std::size_t columns, std::size_t tile_rows,
                              std::size_t tile_columns);

float largest_magnitude(const std::vector<float>& values);

}  // namespace kapitsa

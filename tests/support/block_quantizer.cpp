#include "support/block_quantizer.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace kapitsa {
namespace {

/// The code of the nearest magnitude, ties to the even code. `decode` rises from code 0 to `most`.
template <typename Decode>
std::uint32_t nearest(Decode decode, std::uint32_t most, float value) {
    std::uint32_t low = 0;
    while (low < most && decode(low + 1) <= value) ++low;
    if (low == most) return most;
    const float below = value - decode(low), above = decode(low + 1) - value;
    return below < above || (below == above && low % 2 == 0) ? low : low + 1;
}
std::uint32_t e4m3_code(float value) {
    return nearest(blocks::e4m3, 126, std::fabs(value)) | (std::signbit(value) ? 128u : 0u);
}
std::uint32_t e2m1_code(float value) {
    return nearest(blocks::e2m1, 7, std::fabs(value)) | (std::signbit(value) ? 8u : 0u);
}
std::uint32_t e8m0_code(float value) {
    return std::uint32_t(std::clamp(std::lround(std::log2(value)) + 127, 0l, 254l));
}

}  // namespace

float largest_magnitude(const std::vector<float>& values) {
    float largest = 0;
    for (const float value : values) largest = std::max(largest, std::fabs(value));
    return largest;
}

QuantizedBlocks quantized(BlockForm form, const std::vector<float>& values, float factor) {
    const std::size_t group = shape_of(form).values;
    const bool fours = form != BlockForm::mxfp8;
    CHECK(values.size() % group == 0 && shape_of(form).scales == 1);
    QuantizedBlocks result;
    for (std::size_t first = 0; first < values.size(); first += group) {
        float largest = 0;
        for (std::size_t i = first; i < first + group; ++i) largest = std::max(largest, std::fabs(values[i]));
        const float wanted = (largest == 0 ? 1.0f : largest) / ((fours ? 6.0f : 448.0f) * factor);
        const std::uint32_t code =
            form == BlockForm::nvfp4 ? std::max(e4m3_code(wanted), 1u) : e8m0_code(wanted);
        const float scale = (form == BlockForm::nvfp4 ? blocks::e4m3(code) : blocks::e8m0(code)) * factor;
        result.scales.push_back(std::byte(code));
        for (std::size_t i = first; i < first + group; ++i) {
            const std::uint32_t of_value =
                fours ? e2m1_code(values[i] / scale) : e4m3_code(values[i] / scale);
            result.restored.push_back((fours ? blocks::e2m1(of_value) : blocks::e4m3(of_value)) * scale);
            if (fours && i % 2 == 1)
                result.codes.back() |= std::byte(of_value << 4);
            else
                result.codes.push_back(std::byte(of_value));
        }
    }
    return result;
}

QuantizedBlocks quantized_fp8(const std::vector<float>& values, std::size_t columns, std::size_t tile_rows,
                              std::size_t tile_columns) {
    const std::size_t along = (columns + tile_columns - 1) / tile_columns, rows = values.size() / columns;
    QuantizedBlocks result;
    result.factors.assign((rows + tile_rows - 1) / tile_rows * along, 0.0f);
    const auto factor = [&](std::size_t i) -> float& {
        return result.factors[i / columns / tile_rows * along + i % columns / tile_columns];
    };
    for (std::size_t i = 0; i < values.size(); ++i)
        factor(i) = std::max(factor(i), std::fabs(values[i]) / 448);
    for (std::size_t i = 0; i < values.size(); ++i) {
        const std::uint32_t code = factor(i) == 0 ? 0 : e4m3_code(values[i] / factor(i));
        result.codes.push_back(std::byte(code));
        result.restored.push_back(blocks::e4m3(code) * factor(i));
    }
    return result;
}

}  // namespace kapitsa

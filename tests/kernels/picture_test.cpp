// What pictures need beyond text: pixels, positions in a grid, layer norms, the two forms of GELU, biases.
#include "kernels/picture.h"

#include <cmath>

#include "kernels/elementwise.h"
#include "kernels/lab.h"
#include "kernels/layer_norm.h"

namespace kapitsa {
namespace {

KERNEL_TESTS(PictureKernels);

TEST_P(PictureKernels, PixelsAreScaledByChannelAndRepeatedByFrame) {
    constexpr std::size_t patches = 5, area = 7;
    for (const std::size_t frames : {1u, 2u, 3u}) {
        std::vector<uchar> pixels;
        for (const uint word : random_words(patches * 3 * area, 4)) pixels.push_back(uchar(word >> 24));
        const float scale[3] = {0.5f, 2, 1}, shift[3] = {-1, 3, 0.25f};
        std::vector<double> want;
        for (std::size_t p = 0; p < patches; ++p)
            for (std::size_t c = 0; c < 3; ++c)
                for (std::size_t f = 0; f < frames; ++f)
                    for (std::size_t i = 0; i < area; ++i)
                        want.push_back(pixels[(p * 3 + c) * area + i] * double(scale[c]) + shift[c]);
        Lab lab(GetParam(), 2);
        const Out<float> y = lab.room(want.size());
        lab.run(patch_pixels_f32, {lab.give(pixels),
                                   y,
                                   uint(patches),
                                   uint(frames),
                                   uint(area),
                                   {scale[0], scale[1], scale[2]},
                                   {shift[0], shift[1], shift[2]}});
        EXPECT_LT(largest_error(lab.read(y, want.size()), want), 1e-4);
    }
}

TEST_P(PictureKernels, PositionsAreBetweenThoseOfTheTable) {
    struct Case {
        std::size_t side, rows, columns, block, width;
    };
    for (const Case& it :
         {Case{8, 4, 6, 2, 5}, {8, 16, 10, 2, 33}, {3, 1, 1, 1, 4}, {1, 2, 4, 2, 3}, {48, 6, 3, 3, 8}}) {
        const auto table = random_floats(it.side * it.side * it.width, 1);
        const auto x = random_floats(it.rows * it.columns * it.width, 2);
        std::vector<double> want;
        for (std::size_t patch = 0; patch < it.rows * it.columns; ++patch) {
            const std::size_t of_block = it.block * it.block, across = it.columns / it.block;
            const std::size_t row = patch / of_block / across * it.block + patch % of_block / it.block;
            const std::size_t column = patch / of_block % across * it.block + patch % of_block % it.block;
            const auto source = [&](std::size_t at, std::size_t count) {
                return count > 1 ? double(at) * double(it.side - 1) / double(count - 1) : 0.0;
            };
            const double sy = source(row, it.rows), sx = source(column, it.columns);
            for (std::size_t i = 0; i < it.width; ++i) {
                double sum = x[patch * it.width + i];
                for (std::size_t v = 0; v < it.side; ++v)
                    for (std::size_t u = 0; u < it.side; ++u)
                        sum += std::max(0.0, 1 - std::fabs(sy - double(v))) *
                               std::max(0.0, 1 - std::fabs(sx - double(u))) *
                               table[(v * it.side + u) * it.width + i];
                want.push_back(sum);
            }
        }
        Lab lab(GetParam(), 3);
        const Out<float> y = lab.room(x);
        lab.run(grid_positions_f32, {lab.give(table), y, uint(it.side), uint(it.rows), uint(it.columns),
                                     uint(it.block), uint(it.width)});
        EXPECT_LT(largest_error(lab.read(y, x.size()), want), 1e-5) << it.side;
    }
}

TEST_P(PictureKernels, LayerNormIsRightFarFromZero) {
    for (const std::size_t columns : {1u, 3u, 16u, 64u, 1152u})
        for (const float offset : {0.0f, 100.0f}) {
            constexpr std::size_t rows = 5;
            auto x = random_floats(rows * columns, 1);
            for (float& value : x) value += offset;
            const auto weight = random_floats(columns, 2), bias = random_floats(columns, 3);
            std::vector<double> want;
            for (std::size_t row = 0; row < rows; ++row) {
                double mean = 0, variance = 0;
                for (std::size_t i = 0; i < columns; ++i) mean += x[row * columns + i] / double(columns);
                for (std::size_t i = 0; i < columns; ++i)
                    variance += std::pow(x[row * columns + i] - mean, 2) / double(columns);
                for (std::size_t i = 0; i < columns; ++i)
                    want.push_back((x[row * columns + i] - mean) / std::sqrt(variance + 1e-6) * weight[i] +
                                   bias[i]);
            }
            const auto run = [&](std::uint32_t threads) {
                Lab lab(GetParam(), threads);
                const Out<float> y = lab.room(x.size());
                lab.run(layer_norm_f32,
                        {lab.give(x), lab.give(weight), lab.give(bias), y, uint(rows), uint(columns), 1e-6f});
                return lab.read(y, x.size());
            };
            EXPECT_LT(largest_error(run(1), want), offset == 0 ? 1e-5 : 2e-4) << columns;
            EXPECT_EQ(bits(run(3)), bits(run(1)));
        }
}

TEST_P(PictureKernels, BothFormsOfGeluAreTheirs) {
    for (const std::size_t elements : {1u, 17u, 1025u}) {
        auto x = random_floats(elements, 1, 6);
        x[0] = -1e20f;
        std::vector<double> by_erf, by_tanh;
        for (const double v : x) {
            by_erf.push_back(0.5 * v * std::erfc(-v / std::sqrt(2.0)));
            by_tanh.push_back(0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v))));
        }
        Lab lab(GetParam(), 2);
        const Out<float> y = lab.room(elements);
        lab.run(gelu_erf_f32, {lab.give(x), y, uint(elements)});
        EXPECT_LT(largest_error(lab.read(y, elements), by_erf), 2e-6);
        lab.run(gelu_tanh_f32, {lab.give(x), y, uint(elements)});
        EXPECT_LT(largest_error(lab.read(y, elements), by_tanh), 2e-6);
    }
}

TEST_P(PictureKernels, ABiasIsAddedToEveryRow) {
    constexpr std::size_t rows = 6, columns = 19;
    const auto x = random_floats(rows * columns, 1), bias = random_floats(columns, 2);
    std::vector<double> want;
    for (std::size_t i = 0; i < x.size(); ++i) want.push_back(double(x[i]) + bias[i % columns]);
    Lab lab(GetParam(), 2);
    const Out<float> y = lab.room(x);
    lab.run(add_bias_f32, {lab.give(bias), y, uint(rows), uint(columns)});
    EXPECT_LT(largest_error(lab.read(y, x.size()), want), 1e-6);
}

}  // namespace
}  // namespace kapitsa

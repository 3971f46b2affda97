// The norms against a few lines of obvious C++, at sizes that are not multiples of anything.
#include "kernels/rms_norm.h"

#include <cmath>

#include "kernels/lab.h"

namespace kapitsa {
namespace {

KERNEL_TESTS(Norm);

constexpr float epsilon = 1e-6f;

/// x / rms(x) * weight, a row at a time.
std::vector<double> obvious(const std::vector<float>& x, const std::vector<float>& weight) {
    const std::size_t columns = weight.size();
    std::vector<double> y;
    for (std::size_t row = 0; row < x.size() / columns; ++row) {
        double squares = 0;
        for (std::size_t i = 0; i < columns; ++i) squares += std::pow(double(x[row * columns + i]), 2);
        const double scale = 1 / std::sqrt(squares / double(columns) + epsilon);
        for (std::size_t i = 0; i < columns; ++i) y.push_back(x[row * columns + i] * scale * weight[i]);
    }
    return y;
}

std::vector<float> norm(const Place& place, const std::vector<float>& x, const std::vector<float>& weight,
                        std::size_t rows, const std::vector<uint>& picked = {}) {
    Lab lab(place);
    const Out<float> y = lab.room(rows * weight.size());
    lab.run(rms_norm_f32, {lab.give(x), lab.give(weight), picked.empty() ? nullptr : lab.give(picked), y,
                           uint(rows), uint(weight.size()), epsilon});
    return lab.read(y, rows * weight.size());
}

TEST_P(Norm, IsRightWhateverTheNumberOfColumns) {
    for (const std::size_t columns : {1u, 2u, 15u, 16u, 31u, 32u, 33u, 100u, 777u, 1024u}) {
        constexpr std::size_t rows = 3;
        const auto x = random_floats(rows * columns, 1), weight = random_floats(columns, 2);
        EXPECT_LT(worst_relative(norm(GetParam(), x, weight, rows), obvious(x, weight)), 1e-6) << columns;
    }
}

TEST_P(Norm, TakesTheRowsOfTheListAndGivesEachTheBitsItHasAlone) {
    constexpr std::size_t columns = 33;
    const auto x = random_floats(7 * columns, 1), weight = random_floats(columns, 2);
    const std::vector<uint> picked{6, 0, 3, 3, 1};
    const auto got = norm(GetParam(), x, weight, picked.size(), picked);
    for (std::size_t i = 0; i < picked.size(); ++i) {
        const auto row = row_of(x, picked[i], columns);
        EXPECT_LT(worst_relative(row_of(got, i, columns), obvious(row, weight)), 1e-6);
        EXPECT_EQ(bits(row_of(got, i, columns)), bits(norm(GetParam(), row, weight, 1)));
    }
}

TEST_P(Norm, HoldsForTinyAndLargeRowsAndMakesZeroOfZeros) {
    constexpr std::size_t columns = 31;
    const auto weight = random_floats(columns, 2);
    for (const float scale : {0.0f, 1e-15f, 1e-3f, 1e3f, 1e15f}) {
        const auto x = random_floats(columns, 1, scale);
        const auto want = obvious(x, weight), zeros = std::vector<double>(columns, 0);
        const auto got = norm(GetParam(), x, weight, 1);
        if (scale == 0)
            EXPECT_EQ(largest_error(got, zeros), 0);
        else
            EXPECT_LT(worst_relative(got, want), 1e-6) << scale;
    }
}

TEST_P(Norm, WithAGateIsNormedHeadByHeadAndThenGated) {
    for (const std::size_t width : {1u, 7u, 32u, 33u, 128u})
        for (const std::size_t heads : {1u, 3u, 6u}) {
            constexpr std::size_t rows = 3;
            const std::size_t elements = rows * heads * width;
            const auto x = random_floats(elements, 1), gate = random_floats(elements, 2, 8),
                       weight = random_floats(width, 3);
            auto want = obvious(x, weight);  // a head is a row of its own
            auto want_sigmoid = want;
            for (std::size_t i = 0; i < elements; ++i) {
                want_sigmoid[i] /= 1 + std::exp(-double(gate[i]));
                want[i] *= gate[i] / (1 + std::exp(-double(gate[i])));
            }
            Lab lab(GetParam());
            const Out<float> y = lab.room(elements);
            lab.run(gated_rms_norm_f32, {lab.give(x), lab.give(gate), lab.give(weight), y, uint(rows),
                                         uint(heads), uint(width), epsilon, 0});
            EXPECT_LT(worst_relative(lab.read(y, elements), want), 2e-6) << heads << " x " << width;
            lab.run(gated_rms_norm_f32, {lab.give(x), lab.give(gate), lab.give(weight), y, uint(rows),
                                         uint(heads), uint(width), epsilon, 1});
            EXPECT_LT(worst_relative(lab.read(y, elements), want_sigmoid), 2e-6) << heads << " x " << width;
        }
}

TEST_P(Norm, OfWhatWasGatedIsTakenGroupByGroup) {
    for (const std::size_t width : {1u, 7u, 32u, 33u, 512u})
        for (const std::size_t groups : {1u, 3u, 8u}) {
            constexpr std::size_t rows = 3;
            const std::size_t elements = rows * groups * width;
            const auto x = random_floats(elements, 1), gate = random_floats(elements, 2, 8),
                       weight = random_floats(groups * width, 3);
            std::vector<double> want(elements);
            for (std::size_t begin = 0; begin < elements; begin += width) {
                double squares = 0;
                for (std::size_t i = begin; i < begin + width; ++i) {
                    want[i] = x[i] * (gate[i] / (1 + std::exp(-double(gate[i]))));
                    squares += want[i] * want[i];
                }
                const double scale = 1 / std::sqrt(squares / double(width) + epsilon);
                for (std::size_t i = begin; i < begin + width; ++i)
                    want[i] *= scale * weight[i % (groups * width)];
            }
            Lab lab(GetParam());
            const Out<float> y = lab.room(elements);
            lab.run(norm_of_gated_f32, {lab.give(x), lab.give(gate), lab.give(weight), y, uint(rows),
                                        uint(groups), uint(width), epsilon});
            EXPECT_LT(worst_relative(lab.read(y, elements), want), 2e-6) << groups << " x " << width;
        }
}

TEST_P(Norm, WithAGateClosesForVeryNegativeGates) {
    const std::vector<float> gate{-90, -150, -179, -200, -1000, -1e9f, -1e30f, 200, 1e9f};
    const std::vector<float> x(gate.size(), 1), weight(gate.size(), 1);
    Lab lab(GetParam());
    const Out<float> y = lab.room(gate.size());
    lab.run(gated_rms_norm_f32,
            {lab.give(x), lab.give(gate), lab.give(weight), y, 1, 1, uint(gate.size()), epsilon, 0});
    const auto got = lab.read(y, gate.size());
    for (std::size_t i = 0; i < gate.size(); ++i)
        EXPECT_TRUE(std::fabs(got[i] - std::fmax(gate[i], 0.0f)) <= 1e-6f * std::fmax(gate[i], 1.0f))
            << "a gate of " << gate[i] << " gives " << got[i];
}

}  // namespace
}  // namespace kapitsa

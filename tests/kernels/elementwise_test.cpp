// The small steps, around the sizes at which work is cut.
#include "kernels/elementwise.h"

#include <array>
#include <cmath>
#include <limits>

#include "kernels/lab.h"

namespace kapitsa {
namespace {

KERNEL_TESTS(Elementwise);

constexpr std::size_t sizes[] = {1, 3, 17, 1023, 1024, 1025, 5000};

std::vector<float> swiglu(const Place& place, const std::vector<float>& gate, const std::vector<float>& up,
                          std::uint32_t threads = 1) {
    Lab lab(place, threads);
    const Out<float> y = lab.room(gate.size());
    lab.run(swiglu_f32, {lab.give(gate), lab.give(up), y, uint(gate.size())});
    return lab.read(y, gate.size());
}

TEST_P(Elementwise, SwigluIsSiluOfTheGateTimesUp) {
    for (const std::size_t elements : sizes) {
        const auto gate = random_floats(elements, 1, 20), up = random_floats(elements, 2);
        std::vector<double> want;
        for (std::size_t i = 0; i < elements; ++i)
            want.push_back(gate[i] / (1 + std::exp(-double(gate[i]))) * up[i]);
        const auto got = swiglu(GetParam(), gate, up);
        EXPECT_LT(largest_error(got, want), 4e-6) << elements;
        EXPECT_EQ(bits(swiglu(GetParam(), gate, up, 3)), bits(got));
    }
}

TEST_P(Elementwise, SwigluIsRightToTheEndsOfTheNumbers) {
    std::vector<float> gate{0.0f, -0.0f, std::numeric_limits<float>::max(),
                            -std::numeric_limits<float>::max()};
    for (float size = 1e-30f; size < 1e30f; size *= 1.7f) gate.insert(gate.end(), {size, -size});
    for (float size = 80; size < 200; size += 0.5f) gate.insert(gate.end(), {size, -size});
    const auto got = swiglu(GetParam(), gate, std::vector<float>(gate.size(), 1));
    for (std::size_t i = 0; i < gate.size(); ++i) {
        const double want = gate[i] / (1 + std::exp(-double(gate[i])));
        EXPECT_TRUE(std::fabs(got[i] - want) <= 1e-6 * std::fabs(want) + 1e-36)
            << "silu(" << gate[i] << ") = " << got[i] << ", not " << want;
    }
}

TEST_P(Elementwise, SwigluOfNanIsNan) {
    for (const std::size_t at : {0u, 5u, 16u}) {
        auto gate = random_floats(17, 1);
        gate[at] = std::numeric_limits<float>::quiet_NaN();
        const auto got = swiglu(GetParam(), gate, std::vector<float>(17, 1));
        for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(std::isnan(got[i]), i == at);
    }
}

TEST_P(Elementwise, SquaredReluIsTheSquareOfWhatIsPositive) {
    for (const std::size_t elements : sizes) {
        auto x = random_floats(elements, 1, 20);
        x[0] = -0.0f;
        if (elements > 4) x[1] = 1e19f, x[2] = -1e19f, x[3] = std::numeric_limits<float>::quiet_NaN();
        Lab lab(GetParam(), 2);
        const Out<float> y = lab.room(elements);
        lab.run(squared_relu_f32, {lab.give(x), y, uint(elements)});
        const auto got = lab.read(y, elements);
        for (std::size_t i = 0; i < elements; ++i)
            EXPECT_TRUE(std::isnan(x[i]) ? std::isnan(got[i]) : got[i] == (x[i] > 0 ? x[i] * x[i] : 0.0f))
                << x[i] << " gives " << got[i];
    }
}

TEST_P(Elementwise, ScaleColumnsGivesEachColumnItsFactorAlsoInPlace) {
    for (const std::size_t columns : {1u, 7u, 33u, 1000u}) {
        const auto x = random_floats(3 * columns, 1), scale = random_floats(columns, 2);
        auto want = x;
        for (std::size_t i = 0; i < want.size(); ++i) want[i] *= scale[i % columns];
        Lab lab(GetParam(), 2);
        const Out<float> y = lab.room(x.size()), in_place = lab.room(x);
        lab.run(scale_columns_f32, {lab.give(x), lab.give(scale), y, 3, uint(columns)});
        lab.run(scale_columns_f32, {in_place, lab.give(scale), in_place, 3, uint(columns)});
        EXPECT_EQ(bits(lab.read(y, x.size())), bits(want));
        EXPECT_EQ(bits(lab.read(in_place, x.size())), bits(want));
    }
}

TEST_P(Elementwise, CopyRowsFollowsItsListsAndTouchesNothingElse) {
    for (const std::size_t columns : {1u, 7u, 33u, 256u})
        for (const bool from_list : {false, true})
            for (const bool to_list : {false, true}) {
                const auto x = random_floats(6 * columns, 1), before = random_floats(9 * columns, 2);
                const std::vector<uint> from{5, 0, 3, 3}, to{8, 2, 0, 5};
                auto want = before;
                for (std::size_t i = 0; i < from.size(); ++i)
                    for (std::size_t c = 0; c < columns; ++c)
                        want[(to_list ? to[i] : i) * columns + c] =
                            x[(from_list ? from[i] : i) * columns + c];
                Lab lab(GetParam());
                const Out<float> y = lab.room(before);
                lab.run(copy_rows_f32,
                        {lab.give(x), from_list ? lab.give(from) : nullptr, to_list ? lab.give(to) : nullptr,
                         y, uint(from.size()), uint(columns)});
                EXPECT_EQ(bits(lab.read(y, before.size())), bits(want));
            }
}

TEST_P(Elementwise, ZeroZeroesAStretchAndNothingElse) {
    for (const std::size_t elements : sizes) {
        Lab lab(GetParam());
        const auto before = random_floats(elements + 10, 1);
        auto want = before;
        std::fill_n(want.begin() + 3, elements, 0.0f);
        const Out<float> y = lab.room(before);
        lab.run(zero_f32, {y + 3, uint(elements)});
        EXPECT_EQ(bits(lab.read(y, before.size())), bits(want)) << elements;
    }
}

TEST_P(Elementwise, NothingToDoIsDone) {
    Lab lab(GetParam());
    const auto before = random_floats(8, 1);
    const Out<float> y = lab.room(before);
    lab.run(zero_f32, {y, 0});
    lab.run(copy_rows_f32, {lab.give(before), nullptr, nullptr, y, 0, 8});
    lab.run(swiglu_f32, {lab.give(before), lab.give(before), y, 0});
    EXPECT_EQ(bits(lab.read(y, 8)), bits(before));
}

TEST_P(Elementwise, JoinPutsEachRowBehindTheOther) {
    for (const auto& [rows, left, right] :
         {std::array<std::size_t, 3>{1, 1, 1}, {3, 5, 2}, {7, 64, 64}, {2, 1, 33}}) {
        Lab lab(GetParam());
        const auto a = random_floats(rows * left, 1), b = random_floats(rows * right, 2);
        const Out<float> y = lab.room(rows * (left + right));
        lab.run(join_rows_f32, {lab.give(a), lab.give(b), y, uint(rows), uint(left), uint(right)});
        std::vector<float> want;
        for (std::size_t row = 0; row < rows; ++row)
            for (const auto& part : {row_of(a, row, left), row_of(b, row, right)})
                want.insert(want.end(), part.begin(), part.end());
        EXPECT_EQ(lab.read(y, want.size()), want);
    }
}

}  // namespace
}  // namespace kapitsa

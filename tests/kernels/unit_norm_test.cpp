// The steps on the unit sphere against a few lines of obvious C++, in place and out of it.
#include "kernels/unit_norm.h"

#include <cmath>

#include "kernels/lab.h"

namespace kapitsa {
namespace {

KERNEL_TESTS(UnitNorm);

constexpr float epsilon = 1e-6f;
constexpr std::size_t rows = 3;
constexpr std::size_t widths[] = {1, 2, 15, 16, 33, 100, 777};

using Doubles = std::vector<double>;

Doubles doubles(const std::vector<float>& values) { return {values.begin(), values.end()}; }

Doubles unit(Doubles x, std::size_t columns) {
    for (std::size_t begin = 0; begin < x.size(); begin += columns) {
        double squares = 0;
        for (std::size_t i = begin; i < begin + columns; ++i) squares += x[i] * x[i];
        for (std::size_t i = begin; i < begin + columns; ++i) x[i] /= std::sqrt(squares + epsilon);
    }
    return x;
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// What the kernel gives, which is the same in place, on three threads, and for each row alone.
/// @param run launches on the lab: (lab, x or where it is replaced, y, first row, rows)
template <typename Run>
std::vector<float> result(const Place& place, const std::vector<float>& x, std::size_t columns, Run run) {
    Lab lab(place, 3), alone(place);
    const Out<float> y = lab.room(x.size()), in_place = lab.room(x);
    run(lab, lab.give(x), y, 0, rows);
    run(lab, in_place, in_place, 0, rows);
    const auto got = lab.read(y, x.size());
    EXPECT_EQ(bits(lab.read(in_place, x.size())), bits(got));
    for (std::size_t row = 0; row < rows; ++row) {
        const Out<float> one = alone.room(columns);
        run(alone, alone.give(row_of(x, row, columns)), one, row, 1);
        EXPECT_EQ(bits(alone.read(one, columns)), bits(row_of(got, row, columns)));
    }
    return got;
}

/// The floats of some rows.
std::vector<float> part(const std::vector<float>& values, std::size_t columns, std::size_t first,
                        std::size_t count) {
    const auto from = values.begin() + std::ptrdiff_t(first * columns);
    return {from, from + std::ptrdiff_t(count * columns)};
}

TEST_P(UnitNorm, OfASumHasLengthOne) {
    for (const std::size_t columns : widths)
        for (const bool alone : {false, true}) {
            const auto a = random_floats(rows * columns, 1), b = random_floats(rows * columns, 2);
            Doubles sum = doubles(a);
            for (std::size_t i = 0; i < sum.size() && !alone; ++i) sum[i] += b[i];
            const auto got = result(
                GetParam(), a, columns,
                [&](Lab& lab, In<float> x, Out<float> y, std::size_t first, std::size_t count) {
                    lab.run(unit_of_sum_f32, {x, alone ? nullptr : lab.give(part(b, columns, first, count)),
                                              y, uint(count), uint(columns), epsilon});
                });
            EXPECT_LT(largest_error(got, unit(sum, columns)), 1e-6) << columns;
        }
}

TEST_P(UnitNorm, AStepGoesTheSharesOfTheWayAndBackToTheSphere) {
    for (const std::size_t columns : widths) {
        const auto x = random_floats(rows * columns, 1), other = random_floats(rows * columns, 2, 9),
                   share = random_floats(columns, 3);
        Doubles want = unit(doubles(x), columns);
        const Doubles there = unit(doubles(other), columns);
        for (std::size_t i = 0; i < want.size(); ++i) want[i] += share[i % columns] * (there[i] - want[i]);
        const auto got =
            result(GetParam(), x, columns,
                   [&](Lab& lab, In<float> from, Out<float> y, std::size_t first, std::size_t count) {
                       lab.run(unit_step_f32, {from, lab.give(part(other, columns, first, count)),
                                               lab.give(share), y, uint(count), uint(columns), epsilon});
                   });
        EXPECT_LT(largest_error(got, unit(want, columns)), 3e-6) << columns;
    }
}

TEST_P(UnitNorm, OfSwigluScalesBothSidesFirst) {
    for (const std::size_t columns : widths) {
        const auto gate = random_floats(rows * columns, 1, 3), up = random_floats(rows * columns, 2),
                   gate_scale = random_floats(columns, 3, 4), up_scale = random_floats(columns, 4, 4);
        Doubles want;
        for (std::size_t i = 0; i < gate.size(); ++i) {
            const double g = double(gate[i]) * gate_scale[i % columns];
            want.push_back(g * sigmoid(g) * up[i] * up_scale[i % columns]);
        }
        const auto got = result(
            GetParam(), gate, columns,
            [&](Lab& lab, In<float> x, Out<float> y, std::size_t first, std::size_t count) {
                lab.run(unit_swiglu_f32, {x, lab.give(part(up, columns, first, count)), lab.give(gate_scale),
                                          lab.give(up_scale), y, uint(count), uint(columns), epsilon});
            });
        EXPECT_LT(largest_error(got, unit(want, columns)), 3e-6) << columns;
    }
}

TEST_P(UnitNorm, OfWhatIsGatedScalesTheGateFirst) {
    for (const std::size_t columns : widths) {
        const auto x = random_floats(rows * columns, 1), gate = random_floats(rows * columns, 2, 3),
                   scale = random_floats(columns, 3, 4);
        Doubles want;
        for (std::size_t i = 0; i < x.size(); ++i)
            want.push_back(x[i] * sigmoid(double(gate[i]) * scale[i % columns]));
        const auto got =
            result(GetParam(), x, columns,
                   [&](Lab& lab, In<float> from, Out<float> y, std::size_t first, std::size_t count) {
                       lab.run(unit_gated_f32, {from, lab.give(part(gate, columns, first, count)),
                                                lab.give(scale), y, uint(count), uint(columns), epsilon});
                   });
        EXPECT_LT(largest_error(got, unit(want, columns)), 3e-6) << columns;
    }
}

TEST_P(UnitNorm, OfZerosIsZero) {
    Lab lab(GetParam());
    const Out<float> y = lab.room(33);
    lab.run(unit_of_sum_f32, {lab.give(std::vector<float>(33, 0)), nullptr, y, 1, 33, epsilon});
    EXPECT_EQ(lab.read(y, 33), std::vector<float>(33, 0));
}

}  // namespace
}  // namespace kapitsa

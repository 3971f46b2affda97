// Residual streams side by side against a few lines of obvious C++. A row has its bits alone and on any
// number of threads.
#include "kernels/streams.h"

#include <cmath>

#include "kernels/lab.h"

namespace kapitsa {
namespace {

KERNEL_TESTS(ResidualStreams);

constexpr float epsilon = 1e-6f;
constexpr std::size_t rows = 3;

struct Shape {
    std::size_t streams, width;
    std::size_t wide() const { return streams * width; }
};
constexpr Shape shapes[] = {{1, 1}, {2, 3}, {4, 16}, {3, 33}, {5, 100}, {4, 255}, {7, 64}};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// Rows from `first` on.
std::vector<float> from_row(const std::vector<float>& values, std::size_t first, std::size_t count) {
    const std::size_t columns = values.size() / rows;
    const auto begin = values.begin() + std::ptrdiff_t(first * columns);
    return {begin, begin + std::ptrdiff_t(count * columns)};
}

/// What `run(lab, first row, rows)` gives, `columns` a row: the same on three threads and for each row alone.
template <typename Run>
std::vector<float> result(const Place& place, std::size_t columns, Run run) {
    Lab lab(place), threads(place, 3);
    const auto got = lab.read(run(lab, 0, rows), rows * columns);
    EXPECT_EQ(bits(threads.read(run(threads, 0, rows), rows * columns)), bits(got));
    for (std::size_t row = 0; row < rows; ++row)
        EXPECT_EQ(bits(lab.read(run(lab, row, 1), columns)), bits(row_of(got, row, columns)));
    return got;
}

TEST_P(ResidualStreams, AreNormedEachOnItsOwnWithWeightsOfItsOwn) {
    for (const Shape& s : shapes) {
        const auto x = random_floats(rows * s.wide(), 1, 4), weight = random_floats(s.wide(), 2);
        const auto got = result(GetParam(), s.wide(), [&](Lab& lab, std::size_t first, std::size_t count) {
            const Out<float> y = lab.room(count * s.wide());
            lab.run(grouped_rms_norm_f32, {lab.give(from_row(x, first, count)), lab.give(weight), y,
                                           uint(count), uint(s.streams), uint(s.width), epsilon});
            return y;
        });
        std::vector<double> want;
        for (std::size_t stream = 0; stream < rows * s.streams; ++stream) {
            double squares = 0;
            for (std::size_t i = 0; i < s.width; ++i) squares += std::pow(double(x[stream * s.width + i]), 2);
            for (std::size_t i = 0; i < s.width; ++i)
                want.push_back(x[stream * s.width + i] / std::sqrt(squares / double(s.width) + epsilon) *
                               weight[stream % s.streams * s.width + i]);
        }
        EXPECT_LT(largest_error(got, want), 2e-6) << s.streams << " streams of " << s.width;
    }
}

TEST_P(ResidualStreams, AreMixedByTheMeanOfWhatTheirGatesLetThrough) {
    for (const Shape& s : shapes) {
        auto gate = random_floats(rows * s.wide(), 2, 8);
        gate[0] = -150;
        const auto x = random_floats(rows * s.wide(), 1);
        const auto got = result(GetParam(), s.width, [&](Lab& lab, std::size_t first, std::size_t count) {
            const Out<float> y = lab.room(count * s.width);
            lab.run(mix_streams_f32,
                    {lab.give(from_row(x, first, count)), lab.give(from_row(gate, first, count)), y,
                     uint(count), uint(s.streams), uint(s.width)});
            return y;
        });
        std::vector<double> want;
        for (std::size_t row = 0; row < rows; ++row)
            for (std::size_t i = 0; i < s.width; ++i) {
                double total = 0;
                for (std::size_t stream = 0; stream < s.streams; ++stream) {
                    const std::size_t at = row * s.wide() + stream * s.width + i;
                    total += sigmoid(gate[at]) * x[at];
                }
                want.push_back(total / double(s.streams));
            }
        EXPECT_LT(largest_error(got, want), 1e-6) << s.streams << " streams of " << s.width;
    }
}

TEST_P(ResidualStreams, GetWhatALayerSaysByTheirLogitsOrWhole) {
    for (const Shape& s : shapes)
        for (const bool weighed : {true, false}) {
            constexpr float scale = 0.25f;
            auto logits = random_floats(rows * s.streams, 3, 20);
            logits[0] = -600;  // shut
            const auto x = random_floats(rows * s.wide(), 1), y = random_floats(rows * s.width, 2);
            const auto got =
                result(GetParam(), s.wide(), [&](Lab& lab, std::size_t first, std::size_t count) {
                    const Out<float> streams = lab.room(from_row(x, first, count));
                    lab.run(inject_streams_f32,
                            {lab.give(from_row(y, first, count)),
                             weighed ? lab.give(from_row(logits, first, count)) : nullptr, streams,
                             uint(count), uint(s.streams), uint(s.width), scale});
                    return streams;
                });
            std::vector<double> want;
            for (std::size_t i = 0; i < x.size(); ++i) {
                const std::size_t stream = i / s.width;
                const double weight = weighed ? 2 * sigmoid(double(scale) * logits[stream]) : 1;
                want.push_back(x[i] + weight * y[stream / s.streams * s.width + i % s.width]);
            }
            EXPECT_LT(largest_error(got, want), 1e-6) << s.streams << " streams of " << s.width;
        }
}

TEST_P(ResidualStreams, SiluScalesItsInputFirstAndMayStandInPlace) {
    for (const std::size_t elements : {1u, 15u, 16u, 33u, 1023u, 1024u, 1025u, 3000u})
        for (const float scale : {1.0f, 0.25f}) {
            auto x = random_floats(elements, 1, 30);
            x[0] = -1e6f;
            std::vector<double> want;
            for (const float value : x)
                want.push_back(double(scale) * value * sigmoid(double(scale) * value));
            Lab lab(GetParam(), 3);
            const Out<float> y = lab.room(elements), in_place = lab.room(x);
            lab.run(scaled_silu_f32, {lab.give(x), y, uint(elements), scale});
            lab.run(scaled_silu_f32, {in_place, in_place, uint(elements), scale});
            EXPECT_LT(worst_relative(lab.read(y, elements), want), 1e-6) << elements;
            EXPECT_EQ(bits(lab.read(in_place, elements)), bits(lab.read(y, elements)));
        }
}

}  // namespace
}  // namespace kapitsa

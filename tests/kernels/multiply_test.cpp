// Matrix products against sums in double, and the promise that a row's bits do not depend on its company.
#include "kernels/multiply.h"

#include <cmath>

#include "kernels/quant_golden.h"

namespace kapitsa {
namespace {

KERNEL_TESTS(Multiply);

Kernel<MultiplyDense<float>> dense_kernel(float) { return multiply_f32; }
Kernel<MultiplyDense<half>> dense_kernel(half) { return multiply_f16; }
Kernel<MultiplyDense<bfloat>> dense_kernel(bfloat) { return multiply_bf16; }

#define AFFINE_KERNEL(Scale, suffix)                              \
    Kernel<MultiplyAffine<Scale>> affine_kernel(Scale, uint of) { \
        switch (of) {                                             \
            case 2: return multiply_affine2_##suffix;             \
            case 3: return multiply_affine3_##suffix;             \
            case 4: return multiply_affine4_##suffix;             \
            case 5: return multiply_affine5_##suffix;             \
            case 6: return multiply_affine6_##suffix;             \
            default: return multiply_affine8_##suffix;            \
        }                                                         \
    }
AFFINE_KERNEL(float, f32)
AFFINE_KERNEL(half, f16)
AFFINE_KERNEL(bfloat, bf16)

template <typename T>
struct DenseMatrix {
    std::size_t rows, columns;
    std::vector<T> weights;
    std::vector<double> values() const {
        std::vector<double> all;
        for (const T weight : weights) all.push_back(number(weight));
        return all;
    }
};

enum class Adds { nothing, another, itself };  // what a part's `add` is

/// One matrix of a launch.
template <typename Matrix>
struct PartCase {
    Matrix matrix;
    Adds adds = Adds::nothing;
    std::vector<float> add = {};  // [rows, outputs]
};

template <typename Args, typename T>
void set_weights(Lab& lab, Args& args, typename Args::Part& part, const DenseMatrix<T>& matrix) {
    part.weight = lab.give(matrix.weights);
    args.columns = uint(matrix.columns);
}
template <typename Args, typename Scale>
void set_weights(Lab& lab, Args& args, typename Args::Part& part, const AffineMatrix<Scale>& matrix) {
    part.codes = lab.give(matrix.codes);
    part.scales = lab.give(matrix.scales);
    part.biases = lab.give(matrix.biases);
    args.columns = uint(matrix.columns);
    args.group = matrix.group;
}
template <typename T>
auto kernel_of(const DenseMatrix<T>&) {
    return dense_kernel(T());
}
template <typename Scale>
auto kernel_of(const AffineMatrix<Scale>& matrix) {
    return affine_kernel(Scale(), matrix.bits);
}

template <typename Args, typename Matrix>
std::vector<std::vector<float>> launch(Lab& lab, Kernel<Args> kernel,
                                       const std::vector<PartCase<Matrix>>& parts,
                                       const std::vector<float>& x) {
    Args args{};
    args.x = lab.give(x);
    args.count = uint(parts.size());
    for (std::size_t p = 0; p < parts.size(); ++p) {
        auto& part = args.parts[p];
        set_weights(lab, args, part, parts[p].matrix);
        args.rows = uint(x.size() / args.columns);
        part.outputs = uint(parts[p].matrix.rows);
        if (parts[p].adds == Adds::itself) part.add = part.y = lab.room(parts[p].add);
        if (parts[p].adds == Adds::another) part.add = lab.give(parts[p].add);
        if (parts[p].adds != Adds::itself) part.y = lab.room(std::size_t(args.rows) * part.outputs);
    }
    lab.run(kernel, args);
    std::vector<std::vector<float>> results;
    for (std::size_t p = 0; p < parts.size(); ++p)
        results.push_back(lab.read(args.parts[p].y, std::size_t(args.rows) * parts[p].matrix.rows));
    return results;
}

/// @return the y of each part
template <typename Matrix>
std::vector<std::vector<float>> multiply(const Place& place, const std::vector<PartCase<Matrix>>& parts,
                                         const std::vector<float>& x, std::uint32_t threads = 1) {
    Lab lab(place, threads);
    return launch(lab, kernel_of(parts.front().matrix), parts, x);
}
template <typename Matrix>
std::vector<float> multiply(const Place& place, const Matrix& matrix, const std::vector<float>& x) {
    return multiply(place, std::vector<PartCase<Matrix>>{{matrix}}, x).front();
}

/// Every sum is right to a few roundings of its largest term.
template <typename Matrix>
void expect_product(const PartCase<Matrix>& part, const std::vector<float>& x, const std::vector<float>& y) {
    const std::size_t columns = part.matrix.columns, outputs = part.matrix.rows, rows = x.size() / columns;
    const auto weights = part.matrix.values();
    ASSERT_EQ(y.size(), rows * outputs);
    for (std::size_t row = 0; row < rows; ++row)
        for (std::size_t output = 0; output < outputs; ++output) {
            double want = part.adds == Adds::nothing ? 0 : part.add[row * outputs + output];
            double sizes = std::fabs(want);
            for (std::size_t c = 0; c < columns; ++c) {
                const double term = x[row * columns + c] * weights[output * columns + c];
                want += term;
                sizes += std::fabs(term);
            }
            const double error = std::fabs(y[row * outputs + output] - want);
            ASSERT_TRUE(error <= 2e-6 * sizes) << "row " << row << ", output " << output << ": " << error;
        }
}

constexpr std::size_t row_counts[] = {1, 2, 3, 4, 5, 6, 7, 13, 40};

/// The outputs of each part, one to four of them.
std::vector<std::size_t> part_outputs(std::size_t which) {
    switch (which % 4) {
        case 0: return {3};
        case 1: return {16, 1};
        case 2: return {15, 17, 50};
        default: return {50, 3, 16, 1};
    }
}

/// make(outputs, seed) gives a matrix of that many outputs.
template <typename Make>
void expect_products(const Place& place, std::size_t columns, std::size_t rows, std::size_t which,
                     Make make) {
    using Matrix = decltype(make(0, 0));
    std::vector<PartCase<Matrix>> parts;
    for (const std::size_t outputs : part_outputs(which)) {
        const auto seed = std::uint32_t(which * 100 + parts.size() * 10);
        parts.push_back({make(outputs, seed), Adds((which + parts.size()) % 3), {}});
        if (parts.back().adds != Adds::nothing) parts.back().add = random_floats(rows * outputs, seed + 7);
    }
    const auto x = random_floats(rows * columns, 5);
    const auto results = multiply(place, parts, x);
    for (std::size_t p = 0; p < parts.size(); ++p) {
        SCOPED_TRACE(std::to_string(rows) + " rows, " + std::to_string(columns) + " columns, part " +
                     std::to_string(p));
        expect_product(parts[p], x, results[p]);
    }
}

TEST_P(Multiply, OfDenseWeightsIsTheSumOfProducts) {
    std::size_t which = 0;
    for (const std::size_t columns : {1u, 31u, 33u, 100u, 257u})
        for (const std::size_t rows : row_counts)
            for_each_scale([&]<typename T>(T) {
                expect_products(
                    GetParam(), columns, rows, which++, [&](std::size_t outputs, std::uint32_t seed) {
                        return DenseMatrix<T>{outputs, columns,
                                              stored_as<T>(random_floats(outputs * columns, seed))};
                    });
            });
}

TEST_P(Multiply, OfAffineWeightsIsTheSumOfProducts) {
    std::size_t which = 0;
    for (const auto& [columns, group] :
         {std::pair{32u, 32u}, {96u, 32u}, {64u, 64u}, {192u, 64u}, {128u, 128u}, {384u, 128u}})
        for (const std::size_t rows : row_counts)
            for (const uint of_code : {2u, 3u, 4u, 5u, 6u, 8u})
                for_each_scale([&]<typename Scale>(Scale) {
                    expect_products(
                        GetParam(), columns, rows, which++, [&](std::size_t outputs, std::uint32_t seed) {
                            return AffineMatrix<Scale>::random(outputs, columns, group, of_code, seed);
                        });
                });
}

/// A matrix of 17 outputs: one more than a block of them.
template <typename Body>
void for_each_format(Body body) {
    for_each_scale([&]<typename T>(T) {
        for (const std::size_t columns : {100u, 257u})
            body(DenseMatrix<T>{17, columns, stored_as<T>(random_floats(17 * columns, 1))});
        for (const uint of_code : {2u, 3u, 4u, 5u, 6u, 8u})
            body(AffineMatrix<T>::random(17, 192, 64, of_code, of_code));
    });
}

TEST_P(Multiply, GivesARowTheSameBitsWhateverRidesAlong) {
    for_each_format([&](const auto& matrix) {
        const std::size_t columns = matrix.columns, outputs = matrix.rows, most = 40;
        const auto x = random_floats(most * columns, 3);
        std::vector<std::vector<std::uint32_t>> alone;
        for (std::size_t row = 0; row < most; ++row)
            alone.push_back(bits(multiply(GetParam(), matrix, row_of(x, row, columns))));
        for (const std::size_t rows : {2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 40}) {
            const std::size_t first = (rows * 5) % (most - rows + 1);  // other places in other companies
            const auto y = multiply(GetParam(), matrix,
                                    {x.begin() + std::ptrdiff_t(first * columns),
                                     x.begin() + std::ptrdiff_t((first + rows) * columns)});
            for (std::size_t row = 0; row < rows; ++row)
                ASSERT_EQ(bits(row_of(y, row, outputs)), alone[first + row])
                    << kernel_of(matrix).name << ": row " << row << " of " << rows;
        }
    });
}

TEST_P(Multiply, GivesTheSameBitsWithAnyNumberOfThreads) {
    const std::size_t columns = 100;
    std::vector<PartCase<DenseMatrix<bfloat>>> parts;
    for (const std::size_t outputs : {50u, 3u, 16u, 117u})
        parts.push_back(
            {{outputs, columns, stored_as<bfloat>(random_floats(outputs * columns, uint(outputs)))}});
    for (const std::size_t rows : {1u, 7u}) {
        const auto x = random_floats(rows * columns, 3);
        const auto want = multiply(GetParam(), parts, x);
        for (const std::uint32_t threads : {2u, 3u, 5u}) {
            const auto got = multiply(GetParam(), parts, x, threads);
            for (std::size_t p = 0; p < parts.size(); ++p) EXPECT_EQ(bits(got[p]), bits(want[p]));
        }
    }
}

TEST_P(Multiply, OfAPartIsTheSameBitsWithoutTheOtherParts) {
    for (const std::size_t rows : {1u, 5u}) {
        const auto x = random_floats(rows * 96, 3);
        std::vector<PartCase<AffineMatrix<half>>> parts;
        for (const std::size_t outputs : {15u, 17u, 1u})
            parts.push_back({AffineMatrix<half>::random(outputs, 96, 32, 4, uint(outputs))});
        const auto together = multiply(GetParam(), parts, x);
        for (std::size_t p = 0; p < parts.size(); ++p)
            EXPECT_EQ(bits(together[p]), bits(multiply(GetParam(), parts[p].matrix, x)));
    }
}

/// Rows that are 1 at one column each.
std::vector<float> unit_rows(const std::vector<std::size_t>& places, std::size_t columns) {
    std::vector<float> x(places.size() * columns, 0.0f);
    for (std::size_t row = 0; row < places.size(); ++row) x[row * columns + places[row]] = 1;
    return x;
}

TEST_P(Multiply, WithUnitVectorsGivesTheWeightsOfTheGoldenMatrices) {
    const auto cases = for_each_affine_golden([&]<typename Scale>(const std::string& name,
                                                                  const AffineMatrix<Scale>& matrix,
                                                                  const std::vector<float>& values) {
        if constexpr (!std::is_same_v<Scale, float>) {  // those of f32 are rounded once here, twice there
            std::vector<std::size_t> all;
            for (std::size_t c = 0; c < matrix.columns; ++c) all.push_back(c);
            const auto many = multiply(GetParam(), matrix, unit_rows(all, matrix.columns));
            std::vector<float> few;
            for (std::size_t c = 0; c < matrix.columns; c += 2)
                for (const float value : multiply(GetParam(), matrix, unit_rows({c, c + 1}, matrix.columns)))
                    few.push_back(value);
            std::vector<float> want;
            for (std::size_t c = 0; c < matrix.columns; ++c)
                for (std::size_t output = 0; output < matrix.rows; ++output)
                    want.push_back(values[output * matrix.columns + c]);
            EXPECT_EQ(many, want) << name;
            EXPECT_EQ(few, want) << name;
        }
    });
    EXPECT_EQ(cases, 30u);
}

}  // namespace
}  // namespace kapitsa

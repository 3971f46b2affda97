// Matrix products under test, over any format of weights: a format gives `values()`, a kernel (`kernel_of`),
// and fills its part of the arguments (`set_weights`).
#pragma once

#include <cmath>

#include "kernels/affine.h"
#include "kernels/multiply.h"

namespace kapitsa {

inline Kernel<MultiplyDense<float>> dense_kernel(float) { return multiply_f32; }
inline Kernel<MultiplyDense<half>> dense_kernel(half) { return multiply_f16; }
inline Kernel<MultiplyDense<bfloat>> dense_kernel(bfloat) { return multiply_bf16; }

#define AFFINE_KERNEL(Scale, suffix)                                     \
    inline Kernel<MultiplyAffine<Scale>> affine_kernel(Scale, uint of) { \
        switch (of) {                                                    \
            case 2: return multiply_affine2_##suffix;                    \
            case 3: return multiply_affine3_##suffix;                    \
            case 4: return multiply_affine4_##suffix;                    \
            case 5: return multiply_affine5_##suffix;                    \
            case 6: return multiply_affine6_##suffix;                    \
            default: return multiply_affine8_##suffix;                   \
        }                                                                \
    }
AFFINE_KERNEL(float, f32)
AFFINE_KERNEL(half, f16)
AFFINE_KERNEL(bfloat, bf16)
#undef AFFINE_KERNEL

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
inline std::vector<std::size_t> part_outputs(std::size_t which) {
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

/// A row's bits do not depend on the rows beside it.
template <typename Matrix>
void expect_bits_in_any_company(const Place& place, const Matrix& matrix) {
    const std::size_t columns = matrix.columns, outputs = matrix.rows, most = 40;
    const auto x = random_floats(most * columns, 3);
    std::vector<std::vector<std::uint32_t>> alone;
    for (std::size_t row = 0; row < most; ++row)
        alone.push_back(bits(multiply(place, matrix, row_of(x, row, columns))));
    for (const std::size_t rows : {2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 40}) {
        const std::size_t first = (rows * 5) % (most - rows + 1);  // other places in other companies
        const auto y = multiply(place, matrix,
                                {x.begin() + std::ptrdiff_t(first * columns),
                                 x.begin() + std::ptrdiff_t((first + rows) * columns)});
        for (std::size_t row = 0; row < rows; ++row)
            ASSERT_EQ(bits(row_of(y, row, outputs)), alone[first + row])
                << kernel_of(matrix).name << ": row " << row << " of " << rows;
    }
}

/// Rows that are 1 at one column each.
inline std::vector<float> unit_rows(const std::vector<std::size_t>& places, std::size_t columns) {
    std::vector<float> x(places.size() * columns, 0.0f);
    for (std::size_t row = 0; row < places.size(); ++row) x[row * columns + places[row]] = 1;
    return x;
}

/// Unit vectors give the weights, exactly: all of them at once, and two rows at a time.
template <typename Matrix>
void expect_weights(const Place& place, const Matrix& matrix, const std::vector<float>& values,
                    const std::string& name) {
    std::vector<std::size_t> all;
    for (std::size_t c = 0; c < matrix.columns; ++c) all.push_back(c);
    const auto many = multiply(place, matrix, unit_rows(all, matrix.columns));
    std::vector<float> few;
    for (std::size_t c = 0; c < matrix.columns; c += 2)
        for (const float value : multiply(place, matrix, unit_rows({c, c + 1}, matrix.columns)))
            few.push_back(value);
    std::vector<float> want;
    for (std::size_t c = 0; c < matrix.columns; ++c)
        for (std::size_t output = 0; output < matrix.rows; ++output)
            want.push_back(values[output * matrix.columns + c]);
    EXPECT_EQ(many, want) << name;
    EXPECT_EQ(few, want) << name;
}

}  // namespace kapitsa

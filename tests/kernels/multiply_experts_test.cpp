// Products where each group of rows has the matrices of its own expert, against sums in double; and the
// promise that neither the groups nor the company of a row change its bits.
#include "kernels/multiply_experts.h"

#include <cmath>

#include "kernels/products.h"

namespace kapitsa {
namespace {

KERNEL_TESTS(MultiplyExpertsKernel);

Kernel<MultiplyExperts<MultiplyDense<float>>> experts_kernel(const DenseMatrix<float>&) {
    return multiply_experts_f32;
}
Kernel<MultiplyExperts<MultiplyDense<half>>> experts_kernel(const DenseMatrix<half>&) {
    return multiply_experts_f16;
}
Kernel<MultiplyExperts<MultiplyDense<bfloat>>> experts_kernel(const DenseMatrix<bfloat>&) {
    return multiply_experts_bf16;
}

#define AFFINE_KERNEL(Scale, suffix)                                                                   \
    Kernel<MultiplyExperts<MultiplyAffine<Scale>>> experts_kernel(const AffineMatrix<Scale>& matrix) { \
        switch (matrix.bits) {                                                                         \
            case 2: return multiply_experts_affine2_##suffix;                                          \
            case 3: return multiply_experts_affine3_##suffix;                                          \
            case 4: return multiply_experts_affine4_##suffix;                                          \
            case 5: return multiply_experts_affine5_##suffix;                                          \
            case 6: return multiply_experts_affine6_##suffix;                                          \
            default: return multiply_experts_affine8_##suffix;                                         \
        }                                                                                              \
    }
AFFINE_KERNEL(float, f32)
AFFINE_KERNEL(half, f16)
AFFINE_KERNEL(bfloat, bf16)

template <typename Args>
Args no_arguments(Kernel<Args>) {
    return {};
}

/// Matrices that each expert has, one a part.
template <typename Matrix>
struct Case {
    std::vector<std::vector<Matrix>> parts;  // [parts, experts]
    std::vector<ExpertGroup> groups;
    std::vector<std::vector<float>> add = {};  // [parts] each [rows, outputs], or none
    std::uint32_t threads = 1;

    std::size_t rows() const {
        std::size_t count = 0;
        for (const ExpertGroup& group : groups) count += group.rows;
        return count;
    }
};

/// @return the y of each part
template <typename Matrix>
std::vector<std::vector<float>> multiply(const Place& place, const Case<Matrix>& of,
                                         const std::vector<float>& x) {
    Lab lab(place, of.threads);
    const Matrix& example = of.parts.front().front();
    const auto kernel = experts_kernel(example);
    auto args = no_arguments(kernel);
    auto& matrix = args.matrix;
    matrix.x = lab.give(x);
    matrix.count = uint(of.parts.size());
    matrix.rows = uint(of.rows());
    for (std::size_t p = 0; p < of.parts.size(); ++p) {
        std::vector<std::decay_t<decltype(matrix.parts[0])>> experts;
        for (const Matrix& one : of.parts[p]) set_weights(lab, matrix, experts.emplace_back(), one);
        args.experts[p] = lab.give(experts);
        auto& part = matrix.parts[p];
        part.outputs = uint(of.parts[p].front().rows);
        if (of.add.empty())
            part.y = lab.room(of.rows() * part.outputs);
        else
            part.add = part.y = lab.room(of.add[p]);
    }
    auto groups = of.groups;
    groups.resize(groups.size() + 3);  // room that no group took
    args.groups = lab.give(groups);
    args.group_count = uint(groups.size());
    lab.run(kernel, args);
    std::vector<std::vector<float>> y;
    for (std::size_t p = 0; p < of.parts.size(); ++p)
        y.push_back(lab.read(matrix.parts[p].y, of.rows() * matrix.parts[p].outputs));
    return y;
}

/// Groups of these many rows, for experts that are not neighbours.
std::vector<ExpertGroup> groups_of(const std::vector<uint>& rows) {
    std::vector<ExpertGroup> groups;
    uint first = 0;
    for (std::size_t i = 0; i < rows.size(); first += rows[i++])
        groups.push_back({uint(2 * i + 1), first, rows[i]});
    return groups;
}
constexpr std::size_t expert_count = 12;

/// make(outputs, seed) gives one expert's matrix.
template <typename Make>
auto experts_of(std::size_t outputs, std::uint32_t seed, Make make) {
    std::vector<decltype(make(outputs, seed))> experts;
    for (std::uint32_t e = 0; e < expert_count; ++e) experts.push_back(make(outputs, seed + 10 * e));
    return experts;
}

template <typename Matrix>
void expect_products(const Case<Matrix>& of, const std::vector<float>& x,
                     const std::vector<std::vector<float>>& y) {
    for (std::size_t p = 0; p < of.parts.size(); ++p)
        for (const ExpertGroup& group : of.groups) {
            const Matrix& matrix = of.parts[p][group.expert];
            const auto weights = matrix.values();
            for (std::size_t row = group.first; row < group.first + group.rows; ++row)
                for (std::size_t o = 0; o < matrix.rows; ++o) {
                    double want = of.add.empty() ? 0 : of.add[p][row * matrix.rows + o];
                    double sizes = std::fabs(want);
                    for (std::size_t c = 0; c < matrix.columns; ++c) {
                        const double term = x[row * matrix.columns + c] * weights[o * matrix.columns + c];
                        want += term;
                        sizes += std::fabs(term);
                    }
                    ASSERT_TRUE(std::fabs(y[p][row * matrix.rows + o] - want) <= 2e-6 * sizes)
                        << "part " << p << ", expert " << group.expert << ", row " << row << ", output " << o;
                }
        }
}

template <typename Make>
void expect_products(const Place& place, std::size_t columns, std::uint32_t seed, Make make) {
    Case<decltype(make(1, 1))> of{.parts = {experts_of(19, seed, make), experts_of(3, seed + 1, make)},
                                  .groups = groups_of({1, 3, 7, 2, 40})};
    const auto x = random_floats(of.rows() * columns, seed + 2);
    expect_products(of, x, multiply(place, of, x));
    of.parts.pop_back();
    of.add = {random_floats(of.rows() * 19, seed + 3)};
    expect_products(of, x, multiply(place, of, x));
}

TEST_P(MultiplyExpertsKernel, OfDenseWeightsAreTheSumsOfProducts) {
    for (const std::size_t columns : {1u, 31u, 100u, 257u})
        for_each_scale([&]<typename T>(T) {
            expect_products(GetParam(), columns, uint(columns), [&](std::size_t outputs, std::uint32_t seed) {
                return DenseMatrix<T>{outputs, columns, stored_as<T>(random_floats(outputs * columns, seed))};
            });
        });
}

TEST_P(MultiplyExpertsKernel, OfAffineWeightsAreTheSumsOfProducts) {
    for (const auto& [columns, group] : {std::pair{32u, 32u}, {96u, 32u}, {192u, 64u}, {256u, 128u}})
        for (const uint of_code : {2u, 3u, 4u, 5u, 6u, 8u})
            for_each_scale([&]<typename Scale>(Scale) {
                expect_products(GetParam(), columns, of_code, [&](std::size_t outputs, std::uint32_t seed) {
                    return AffineMatrix<Scale>::random(outputs, columns, group, of_code, seed);
                });
            });
}

/// A row's result is the one that it has alone, and with as many threads as you like.
template <typename Matrix>
void expect_no_company_matters(const Place& place, const std::vector<Matrix>& experts) {
    const std::size_t columns = experts.front().columns, outputs = experts.front().rows;
    Case<Matrix> of{.parts = {experts}, .groups = groups_of({1, 2, 3, 4, 5, 17})};
    const auto x = random_floats(of.rows() * columns, 3);
    const auto together = multiply(place, of, x).front();
    of.threads = 3;
    EXPECT_EQ(bits(multiply(place, of, x).front()), bits(together));
    for (const ExpertGroup& group : of.groups)
        for (std::size_t row = group.first; row < group.first + group.rows; ++row) {
            const Case<Matrix> alone{.parts = {experts}, .groups = {{group.expert, 0, 1}}};
            ASSERT_EQ(bits(multiply(place, alone, row_of(x, row, columns)).front()),
                      bits(row_of(together, row, outputs)))
                << experts_kernel(experts.front()).name << ", row " << row;
        }
}

TEST_P(MultiplyExpertsKernel, GiveARowTheSameBitsInAnyCompany) {
    for_each_scale([&]<typename T>(T) {
        expect_no_company_matters(GetParam(), experts_of(17, 1, [](std::size_t outputs, std::uint32_t seed) {
                                      return DenseMatrix<T>{outputs, 100,
                                                            stored_as<T>(random_floats(outputs * 100, seed))};
                                  }));
        for (const uint of_code : {2u, 3u, 4u, 5u, 6u, 8u})
            expect_no_company_matters(GetParam(),
                                      experts_of(17, 1, [&](std::size_t outputs, std::uint32_t seed) {
                                          return AffineMatrix<T>::random(outputs, 96, 32, of_code, seed);
                                      }));
    });
}

TEST_P(MultiplyExpertsKernel, HaveTheBitsOfThePlainProductWithTheExpertsMatrix) {
    const auto experts = experts_of(33, 1, [](std::size_t outputs, std::uint32_t seed) {
        return DenseMatrix<bfloat>{outputs, 257, stored_as<bfloat>(random_floats(outputs * 257, seed))};
    });
    const Case<DenseMatrix<bfloat>> of{.parts = {experts}, .groups = groups_of({1, 4, 9})};
    const auto x = random_floats(of.rows() * 257, 5);
    const auto together = multiply(GetParam(), of, x).front();
    for (const ExpertGroup& group : of.groups) {
        const auto plain = multiply(
            GetParam(), experts[group.expert],
            std::vector<float>(x.begin() + group.first * 257, x.begin() + (group.first + group.rows) * 257));
        for (std::size_t row = 0; row < group.rows; ++row)
            EXPECT_EQ(bits(row_of(together, group.first + row, 33)), bits(row_of(plain, row, 33)));
    }
}

}  // namespace
}  // namespace kapitsa

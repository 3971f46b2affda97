// Matrix products against sums in double, and the promise that a row's bits do not depend on its company.
#include "kernels/products.h"
#include "kernels/quant_golden.h"

namespace kapitsa {
namespace {

KERNEL_TESTS(Multiply);

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
    for_each_format([&](const auto& matrix) { expect_bits_in_any_company(GetParam(), matrix); });
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

TEST_P(Multiply, WithUnitVectorsGivesTheWeightsOfTheGoldenMatrices) {
    const auto cases =
        for_each_affine_golden([&]<typename Scale>(const std::string& name, const AffineMatrix<Scale>& matrix,
                                                   const std::vector<float>& values) {
            // Those of f32 are rounded once here, twice there.
            if constexpr (!std::is_same_v<Scale, float>) expect_weights(GetParam(), matrix, values, name);
        });
    EXPECT_EQ(cases, 30u);
}

}  // namespace
}  // namespace kapitsa

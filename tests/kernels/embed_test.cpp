// Embeddings: what is stored comes out as it is, and affine codes as the values they stand for.
#include "kernels/embed.h"

#include <cmath>

#include "kernels/quant_golden.h"

namespace kapitsa {
namespace {

KERNEL_TESTS(EmbedRows);

Kernel<Embed<float>> dense_kernel(float) { return embed_f32; }
Kernel<Embed<half>> dense_kernel(half) { return embed_f16; }
Kernel<Embed<bfloat>> dense_kernel(bfloat) { return embed_bf16; }
Kernel<EmbedAffine<float>> affine_kernel(float) { return embed_affine_f32; }
Kernel<EmbedAffine<half>> affine_kernel(half) { return embed_affine_f16; }
Kernel<EmbedAffine<bfloat>> affine_kernel(bfloat) { return embed_affine_bf16; }

template <typename T>
std::vector<float> embed(const Place& place, const std::vector<T>& table, std::size_t columns,
                         const std::vector<int>& tokens) {
    Lab lab(place);
    const Out<float> y = lab.room(tokens.size() * columns);
    lab.run(dense_kernel(T()), {lab.give(table), lab.give(tokens), y, uint(tokens.size()), uint(columns)});
    return lab.read(y, tokens.size() * columns);
}

template <typename Scale>
std::vector<float> embed(const Place& place, const AffineMatrix<Scale>& table,
                         const std::vector<int>& tokens) {
    Lab lab(place);
    const Out<float> y = lab.room(tokens.size() * table.columns);
    lab.run(affine_kernel(Scale()),
            {lab.give(table.codes), lab.give(table.scales), lab.give(table.biases), lab.give(tokens), y,
             uint(tokens.size()), uint(table.columns), table.group, table.bits});
    return lab.read(y, tokens.size() * table.columns);
}

TEST_P(EmbedRows, AreTheRowsOfTheirTokens) {
    for_each_scale([&]<typename T>(T) {
        for (const std::size_t columns : {1u, 3u, 31u, 32u, 33u, 100u, 257u}) {
            const auto table = stored_as<T>(random_floats(5 * columns, 1));
            const std::vector<int> tokens{4, 0, 4, 2, 1, 1, 3};
            std::vector<float> want;
            for (const int token : tokens)
                for (const T value : row_of(table, std::size_t(token), columns))
                    want.push_back(float(number(value)));
            EXPECT_EQ(bits(embed(GetParam(), table, columns, tokens)), bits(want)) << columns;
        }
    });
}

TEST_P(EmbedRows, ConvertEveryFiniteNumberOf16Bits) {
    std::vector<half> halves;
    std::vector<bfloat> bfloats;
    std::vector<float> of_halves, of_bfloats;
    for (std::uint32_t word = 0; word < 65536; ++word) {
        const half h{std::uint16_t(word)};
        const bfloat b{std::uint16_t(word)};
        if (std::isfinite(number(h))) halves.push_back(h), of_halves.push_back(float(number(h)));
        if (std::isfinite(number(b))) bfloats.push_back(b), of_bfloats.push_back(float(number(b)));
    }
    ASSERT_EQ(halves.size(), 65536u - 2048u);
    ASSERT_EQ(bfloats.size(), 65536u - 256u);
    EXPECT_EQ(bits(embed(GetParam(), halves, halves.size(), {0})), bits(of_halves));
    EXPECT_EQ(bits(embed(GetParam(), bfloats, bfloats.size(), {0})), bits(of_bfloats));
}

TEST_P(EmbedRows, OfAffineCodesAreScaleTimesCodePlusBias) {
    for (const uint of_code : {2u, 3u, 4u, 5u, 6u, 8u})
        for (const auto& [columns, group] :
             {std::pair{32u, 32u}, {96u, 32u}, {64u, 64u}, {192u, 64u}, {384u, 128u}})
            for_each_scale([&]<typename Scale>(Scale) {
                const auto table = AffineMatrix<Scale>::random(4, columns, group, of_code, of_code + columns);
                const auto values = table.values();
                std::vector<double> want;
                for (const std::size_t token : {3u, 1u, 1u, 0u})
                    for (const double value : row_of(values, token, columns)) want.push_back(value);
                // Two roundings of numbers below 0.1 * 255 + 1.
                EXPECT_LT(largest_error(embed(GetParam(), table, {3, 1, 1, 0}), want), 2 * 0x1p-20)
                    << of_code << " bits, " << columns << " columns";
            });
}

TEST_P(EmbedRows, OfTheGoldenMatricesAreTheirValuesToTheBit) {
    const auto cases =
        for_each_affine_golden([&]<typename Scale>(const std::string& name, const AffineMatrix<Scale>& matrix,
                                                   const std::vector<float>& values) {
            const auto got = embed(GetParam(), matrix, {0, 1, 2, 3, 4, 5});
            if constexpr (!std::is_same_v<Scale, float>) {
                EXPECT_EQ(bits(got), bits(values)) << name;
            } else {
                // With 24 bits of scale a fused multiply-add may differ from the golden's two roundings.
                ASSERT_EQ(got.size(), values.size());
                for (std::size_t i = 0; i < got.size(); ++i) {
                    const std::size_t row = i / matrix.columns, column = i % matrix.columns;
                    const std::size_t group = matrix.group_of(row, column);
                    const float fused =
                        std::fma(matrix.scales[group], float(matrix.code(row, column)), matrix.biases[group]);
                    EXPECT_TRUE(got[i] == values[i] || got[i] == fused) << name << " " << i << ": " << got[i];
                }
            }
        });
    EXPECT_EQ(cases, 30u);
}

TEST_P(EmbedRows, FindEachCodeWhereItIsPacked) {
    const Golden golden("quant/mlx.safetensors");
    for (const uint of_code : {2u, 3u, 4u, 5u, 6u, 8u}) {
        const std::string name = "pack_b" + std::to_string(of_code);
        const auto codes = golden.floats(name + ".codes");
        const AffineMatrix<float> table{4,
                                        128,
                                        128,
                                        of_code,
                                        stored_array<uint>(golden, name + ".weight"),
                                        std::vector<float>(4, 1),
                                        std::vector<float>(4, 0)};
        EXPECT_EQ(embed(GetParam(), table, {0, 1, 2, 3}), codes.values) << name;
    }
}

}  // namespace
}  // namespace kapitsa

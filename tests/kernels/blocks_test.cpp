// Weights in blocks: every form gives the values of its goldens to the bit, on every backend and instruction
// set, and its products are right and do not depend on company.
#include "kernels/blocks.h"

#include "kernels/block_matrix.h"

namespace kapitsa {
namespace {

KERNEL_TESTS(Blocks);

constexpr std::size_t golden_cases = 23 + 5 + 3 + 4 + 3;

std::vector<float> embed(const Place& place, const BlockMatrix& table, const std::vector<int>& tokens) {
    Lab lab(place);
    const std::size_t count = tokens.size() * table.columns;
    const Out<float> y = lab.room(count);
    lab.run(
        embed_blocks[uint(table.form)],
        {lab.give(table.blocks), table.scales.empty() ? nullptr : lab.give(table.scales),
         table.factors.empty() ? nullptr : lab.give(table.factors), lab.give(tokens), y, uint(tokens.size()),
         uint(table.columns), uint(table.row_bytes()), uint(table.scale_bytes()), table.tile});
    return lab.read(y, count);
}

/// Random matrices of every form, with factors where the form may have them; some widths are one block, some
/// several pieces of a row and a bit.
template <typename Body>
void for_each_random_matrix(std::size_t rows, Body body) {
    for (uint number = 0; number < block_form_count; ++number) {
        const auto form = BlockForm(number);
        const std::size_t values = shape_of(form).values;
        for (const std::size_t columns : {values, 3 * values, (512 / values + 1) * values}) {
            BlockMatrix matrix = BlockMatrix::random(form, rows, columns, 100 * number);
            if (form == BlockForm::nvfp4 || form == BlockForm::gguf_nvfp4) matrix.factors = {0.37f};
            body(matrix);
        }
    }
    struct {
        std::size_t columns;
        FactorTile tile;
    } tiled[] = {{31, {0, 0}}, {33, {1, 0}}, {100, {16, 32}}, {300, {128, 128}}, {515, {1, 7}}, {1, {0, 0}}};
    for (const auto& [columns, tile] : tiled) {
        BlockMatrix matrix = BlockMatrix::random(BlockForm::fp8, rows, columns, uint(columns));
        matrix.tile = tile;
        const std::size_t down = tile.rows ? (rows + tile.rows - 1) / tile.rows : 1,
                          along = tile.columns ? (columns + tile.columns - 1) / tile.columns : 1;
        matrix.factors = random_floats(down * along, 9);
        body(matrix);
    }
}

TEST_P(Blocks, AreLookedUpInPartsAsInOne) {
    for_each_random_matrix(12, [&](const BlockMatrix& whole) {
        if (whole.tile.rows > 4) return;  // parts have whole tiles
        const std::vector<uint> picked{11, 0, 5, 4, 3, 3, 8};
        Lab lab(GetParam(), 2);
        std::vector<MultiplyBlocks::Part> parts(3);
        for (std::size_t part = 0; part < 3; ++part) {
            const auto rows_of = [&](const auto& values, std::size_t bytes) {
                return lab.give(row_of(values, part, 4 * bytes));
            };
            parts[part].blocks = rows_of(whole.blocks, whole.row_bytes());
            if (!whole.scales.empty()) parts[part].scales = rows_of(whole.scales, whole.scale_bytes());
            if (whole.factors.empty()) continue;
            parts[part].factors = whole.tile.rows == 0 ? lab.give(whole.factors)
                                                       : rows_of(whole.factors, whole.factors.size() / 12);
        }
        const Out<float> y = lab.room(picked.size() * whole.columns);
        lab.run(lookup_blocks[uint(whole.form)],
                {lab.give(parts), lab.give(picked), y, uint(picked.size()), uint(whole.columns), 4,
                 uint(whole.row_bytes()), uint(whole.scale_bytes()), whole.tile});
        EXPECT_EQ(bits(lab.read(y, picked.size() * whole.columns)),
                  bits(embed(GetParam(), whole, {picked.begin(), picked.end()})));
    });
}

TEST(BlockForms, HaveTheValuesOfTheGoldens) {
    const auto cases = for_each_block_golden(
        [](const std::string& name, const BlockMatrix& matrix, const std::vector<float>& values) {
            EXPECT_EQ(bits(matrix.floats()), bits(values)) << name;
        });
    EXPECT_EQ(cases, golden_cases);
}

TEST(BlockForms, ReadTheSmallFloatsOfScales) {
    const auto table = Golden("quant/nvfp4_fp8.safetensors").floats("e4m3_table").values;
    for (uint code = 0; code < 256; ++code) {
        if ((code & 127) == 127)
            EXPECT_TRUE(std::isnan(blocks::e4m3(code)));
        else
            EXPECT_EQ(bits(std::vector{blocks::e4m3(code)}), bits(std::vector{table[code]})) << code;
    }
    for (uint code = 0; code < 255; ++code) EXPECT_EQ(blocks::e8m0(code), std::ldexp(1.0f, int(code) - 127));
    EXPECT_TRUE(std::isnan(blocks::e8m0(255)));
    EXPECT_EQ(blocks::ue4m3(0x7f), 0.0f);
    EXPECT_EQ(blocks::ue4m3(0xfe), 448.0f);
    EXPECT_EQ(bits(std::vector{blocks::e2m1(8)}), bits(std::vector{-0.0f}));
}

TEST_P(Blocks, EmbedTheGoldenMatricesToTheBit) {
    const auto cases = for_each_block_golden(
        [](const std::string& name, const BlockMatrix& matrix, const std::vector<float>& values) {
            std::vector<int> tokens{1, 0};
            for (int token = int(matrix.rows) - 1; token >= 0; --token) tokens.push_back(token);
            std::vector<float> want;
            for (const int token : tokens)
                for (const float value : row_of(values, std::size_t(token), matrix.columns))
                    want.push_back(value);
            EXPECT_EQ(bits(embed(GetParam(), matrix, tokens)), bits(want)) << name;
        });
    EXPECT_EQ(cases, golden_cases);
}

TEST_P(Blocks, EmbedRandomMatricesToTheBit) {
    for_each_random_matrix(3, [](const BlockMatrix& matrix) {
        EXPECT_EQ(bits(embed(GetParam(), matrix, {0, 1, 2})), bits(matrix.floats()))
            << name_of(matrix.form) << ", " << matrix.columns << " columns";
    });
}

TEST_P(Blocks, WithUnitVectorsGiveTheWeightsOfTheGoldenMatrices) {
    const auto cases = for_each_block_golden(
        [](const std::string& name, const BlockMatrix& matrix, const std::vector<float>& values) {
            expect_weights(GetParam(), matrix, values, name);
        });
    EXPECT_EQ(cases, golden_cases);
}

TEST_P(Blocks, MultiplyAsTheSumOfProducts) {
    std::size_t which = 0;
    for_each_random_matrix(50, [&](const BlockMatrix& whole) {
        for (const std::size_t rows : {row_counts[which % 9], row_counts[(which + 4) % 9]})
            expect_products(GetParam(), whole.columns, rows, which++,
                            [&](std::size_t outputs, std::uint32_t) {
                                BlockMatrix matrix = whole;
                                matrix.rows = outputs;
                                matrix.blocks.resize(outputs * whole.row_bytes());
                                matrix.scales.resize(outputs * whole.scale_bytes());
                                return matrix;
                            });
    });
}

TEST_P(Blocks, GiveARowTheSameBitsWhateverRidesAlong) {
    for_each_random_matrix(17, [](const BlockMatrix& matrix) {
        if (matrix.columns != shape_of(matrix.form).values) expect_bits_in_any_company(GetParam(), matrix);
    });
}

TEST_P(Blocks, GiveTheSameBitsWithAnyNumberOfThreads) {
    std::vector<PartCase<BlockMatrix>> parts;
    for (const std::size_t outputs : {50u, 3u, 16u, 117u})
        parts.push_back({BlockMatrix::random(BlockForm::q4_k, outputs, 768, uint(outputs))});
    for (const std::size_t rows : {1u, 7u}) {
        const auto x = random_floats(rows * 768, 3);
        const auto want = multiply(GetParam(), parts, x);
        for (const std::uint32_t threads : {2u, 3u, 5u}) {
            const auto got = multiply(GetParam(), parts, x, threads);
            for (std::size_t p = 0; p < parts.size(); ++p) EXPECT_EQ(bits(got[p]), bits(want[p]));
        }
    }
}

TEST_P(Blocks, OfExpertsGiveEachGroupTheBitsOfItsOwnMatrix) {
    const std::vector<ExpertGroup> groups{{2, 0, 1}, {0, 1, 6}, {1, 7, 2}};
    for (uint number = 0; number < block_form_count; ++number) {
        const auto form = BlockForm(number);
        const bool has_factors =
            form == BlockForm::nvfp4 || form == BlockForm::gguf_nvfp4 || form == BlockForm::fp8;
        const std::size_t columns = 768, outputs = 35, rows = 9;
        const auto x = random_floats(rows * columns, 4);
        Lab lab(GetParam(), 2);
        MultiplyExperts<MultiplyBlocks> args{};
        std::vector<BlockMatrix> matrices;
        std::vector<MultiplyBlocks::Part> parts(3);
        for (uint e = 0; e < 3; ++e) {
            matrices.push_back(BlockMatrix::random(form, outputs, columns, 70 * e));
            if (has_factors) matrices.back().factors = {0.3f + 0.2f * float(e)};
            set_weights(lab, args.matrix, parts[e], matrices.back());
        }
        args.matrix.x = lab.give(x);
        args.matrix.count = 1;
        args.matrix.rows = uint(rows);
        args.matrix.parts[0].outputs = uint(outputs);
        args.matrix.parts[0].y = lab.room(rows * outputs);
        args.experts[0] = lab.give(parts);
        args.groups = lab.give(groups);
        args.group_count = 3;
        lab.run(multiply_experts_blocks[uint(form)], args);
        const auto y = lab.read(args.matrix.parts[0].y, rows * outputs);
        for (const ExpertGroup& group : groups)
            for (uint row = group.first; row < group.first + group.rows; ++row)
                EXPECT_EQ(bits(row_of(y, row, outputs)),
                          bits(multiply(GetParam(), matrices[group.expert], row_of(x, row, columns))))
                    << name_of(form) << ", row " << row;
    }
}

}  // namespace
}  // namespace kapitsa

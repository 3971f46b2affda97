#include "support/golden.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "formats/checkpoint.h"

namespace kapitsa {
namespace {

TEST(Golden, GivesArraysOfEveryTypeInThem) {
    const Golden dense("qwen3_5-dense/golden.safetensors");
    const auto ids = dense.ints("p7.input_ids");
    EXPECT_EQ(ids.shape, (std::vector<std::uint64_t>{7}));
    const Json said = read_golden_json("qwen3_5-dense/golden.json");
    EXPECT_EQ(ids.values, said.at("prompts").at("7").at("input_ids").get<std::vector<std::int64_t>>());

    const auto exact = dense.floats("p7.logits_fp32"), rounded = dense.floats("p7.logits_bf16");
    EXPECT_EQ(exact.shape, (std::vector<std::uint64_t>{7, 512}));
    ASSERT_EQ(exact.values.size(), 7u * 512u);
    ASSERT_EQ(rounded.values.size(), exact.values.size());

    // The float64 run of the same model: as close as its README says.
    const auto reference = Golden("qwen3_5-dense/logits_f64.safetensors").doubles("p7.logits_fp64");
    ASSERT_EQ(reference.shape, exact.shape);
    double difference_max = 0;
    for (std::size_t i = 0; i < exact.values.size(); ++i)
        difference_max = std::fmax(difference_max, std::fabs(exact.values[i] - reference.values[i]));
    EXPECT_TRUE(difference_max > 0 && difference_max < 1e-3) << difference_max;
}

TEST(Golden, ConvertsHalvesExactly) {
    // The same source quantised with scales of both widths: where q = 0 the value is the bias itself.
    const Golden quant("quant/mlx.safetensors");
    for (const std::string type : {"bf16", "f16", "f32"}) {
        const auto biases = quant.floats("affine_b2_g64_" + type + ".biases");
        const auto words = quant.ints("affine_b2_g64_" + type + ".weight");
        const auto values = quant.floats("affine_b2_g64_" + type + ".values");
        std::size_t zeros = 0;
        for (std::size_t i = 0; i < values.values.size(); ++i)
            if ((words.values[i / 16] >> (2 * (i % 16)) & 3) == 0) {
                ++zeros;
                EXPECT_EQ(values.values[i], biases.values[i / 64]) << type << " " << i;
            }
        EXPECT_GT(zeros, 100u);
    }
}

TEST(Golden, TheGoldenModelsOpen) {
    const auto dense = open_checkpoint(std::string(KAPITSA_SOURCE_DIR) + "/tests/data/goldens/qwen3_5-dense");
    // Its folder holds goldens beside the weights, under names that are not a model's.
    ASSERT_TRUE(dense) << dense.error().message;
    EXPECT_EQ(dense->tensors.size(), 108u);

    for (const std::string model : {"mlx4", "bf16"}) {
        const std::string stem = "tiny-" + model + "/goldens-" + model;
        EXPECT_FALSE(Golden(stem + ".safetensors").names().empty());
        EXPECT_TRUE(read_golden_json(stem + ".json").contains("hello"));
    }
}

TEST(Golden, TheBf16ModelOpensWhereThereIsOne) {
    const auto folder = tiny_bf16_folder();
    if (!folder) GTEST_SKIP() << no_tiny_bf16;
    const auto model = open_checkpoint(*folder);
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_GT(model->files.size(), 1u);
}

TEST(GoldenDeathTest, AnArrayThatIsNotThereIsNamed) {
    EXPECT_DEATH(Golden("quant/mlx.safetensors").floats("nothing"), "mlx.safetensors has no array nothing");
    EXPECT_DEATH(Golden("nowhere.safetensors"), "nowhere.safetensors: No such file");
}

}  // namespace
}  // namespace kapitsa

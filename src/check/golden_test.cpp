#include "check/golden.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "support/checkpoint_writer.h"

namespace kapitsa {
namespace {

const std::string goldens_folder = KAPITSA_SOURCE_DIR "/tests/data/goldens/";

Result<std::vector<GoldenResult>> compare(const std::string& model, const std::string& golden) {
    const Checkpoint checkpoint = TRY(open_checkpoint(model));
    const Goldens goldens = TRY(read_goldens(golden, *checkpoint.config));
    return compare_with_goldens(checkpoint, goldens, golden_limit, {.threads = 2},
                                [](const std::string&) { return true; });
}

/// A folder of goldens of one case, as a test says it, beside Flint's tiny model.
class Written : public testing::Test {
protected:
    static constexpr std::uint64_t vocabulary = 192;
    const std::string model = goldens_folder + "flint";

    void write(const std::vector<std::int32_t>& ids, std::vector<std::uint64_t> shape,
               const std::vector<float>& logits, const std::vector<std::int32_t>& greedy = {}) {
        CheckpointWriter writer;
        add_ints(writer, "p1.ids", ids);
        if (!greedy.empty()) add_ints(writer, "p1.greedy", greedy);
        writer.add_floats("p1.logits", std::move(shape), logits);
        const std::string folder = temporary_.path() + "/written";
        writer.write(folder, Json::object());
        std::filesystem::rename(folder + "/model.safetensors", path());
    }
    std::string path() const { return temporary_.path() + "/goldens.safetensors"; }
    std::string why_not() {
        const auto results = compare(model, path());
        return results ? "" : results.error().message;
    }

private:
    static void add_ints(CheckpointWriter& writer, const std::string& name,
                         const std::vector<std::int32_t>& ids) {
        const Bytes bytes = std::as_bytes(std::span(ids));
        writer.add(name, ElementType::i32, {ids.size()}, {bytes.begin(), bytes.end()});
    }
    TemporaryFolder temporary_;
};

class EveryGolden : public testing::TestWithParam<std::string> {};

TEST_P(EveryGolden, Holds) {
    const auto results = compare(goldens_folder + GetParam(), goldens_folder + GetParam());
    ASSERT_TRUE(results) << results.error().message;
    EXPECT_GE(results->size(), 6u);  // three prompts at least, with their answers
    for (const GoldenResult& result : *results)
        EXPECT_TRUE(result.holds()) << result.tensor << " differs by " << result.difference;
}

INSTANTIATE_TEST_SUITE_P(Folders, EveryGolden,
                         testing::Values("dory", "flint", "nemotron_h-latent", "nemotron_h-mamba",
                                         "nemotron_h-moe", "qwen3_5-dense", "qwen3_5-moe", "qwen3_5-mtp"),
                         [](const auto& it) {
                             std::string name = it.param;
                             std::erase_if(name, [](char c) { return c == '-' || c == '_'; });
                             return name;
                         });

TEST(Goldens, OfTheBuiltInModelHold) {
    const auto results = compare(KAPITSA_SOURCE_DIR "/models/tiny", goldens_folder + "tiny-mlx4");
    ASSERT_TRUE(results) << results.error().message;
    EXPECT_EQ(results->size(), 12u);
    for (const GoldenResult& result : *results) EXPECT_TRUE(result.holds()) << result.tensor;
}

TEST(Goldens, AreComparedInEveryLayerAndSayWhatIsPassedOver) {
    const auto checkpoint = open_checkpoint(goldens_folder + "qwen3_5-dense");
    ASSERT_TRUE(checkpoint);
    const auto goldens = read_goldens(goldens_folder + "qwen3_5-dense", *checkpoint->config);
    ASSERT_TRUE(goldens) << goldens.error().message;
    ASSERT_EQ(goldens->cases.size(), 5u);
    for (const GoldenCase& golden : goldens->cases) {
        EXPECT_EQ(golden.logits.size(), 2u) << golden.name;  // in f32 and in f64
        EXPECT_TRUE(golden.hidden.has_value()) << golden.name;
        EXPECT_EQ(golden.greedy.size(), 32u) << golden.name;
    }
    EXPECT_EQ(goldens->passed_over.front(), "p1.layer1.conv_state");
}

TEST_F(Written, ADifferenceIsFoundWhereItIs) {
    const ArrayFile real = *ArrayFile::open(goldens_folder + "flint/goldens.safetensors");
    auto logits = real.floats("p8.logits")->values;
    const auto ids = real.ints("p8.ids")->values;
    logits[5 * vocabulary + 17] += 0.01f;
    write({ids.begin(), ids.end()}, {8, vocabulary}, logits);
    const auto results = compare(model, path());
    ASSERT_TRUE(results) << results.error().message;
    ASSERT_EQ(results->size(), 1u);
    const GoldenResult& result = results->front();
    EXPECT_FALSE(result.holds());
    EXPECT_EQ(result.tensor, "p1.logits");
    EXPECT_EQ(result.position, (std::vector<std::uint64_t>{5, 17}));
    EXPECT_NEAR(result.difference, 0.01, 1e-4);
}

TEST_F(Written, WhatIsNoNumberDoesNotHold) {
    std::vector<float> logits(vocabulary, 0);
    logits[3] = std::nanf("");
    write({7}, {1, vocabulary}, logits);
    const auto results = compare(model, path());
    ASSERT_TRUE(results) << results.error().message;
    EXPECT_FALSE(results->front().holds());
    EXPECT_EQ(results->front().position, (std::vector<std::uint64_t>{0, 3}));
}

TEST_F(Written, AnotherAnswerIsFoundAtItsFirstToken) {
    const ArrayFile real = *ArrayFile::open(goldens_folder + "flint/goldens.safetensors");
    const auto said = real.ints("p1.greedy")->values;
    std::vector<std::int32_t> greedy(said.begin(), said.end());
    const auto first = static_cast<std::int32_t>(real.ints("p1.ids")->values.front());
    greedy[4] = (greedy[4] + 1) % std::int32_t(vocabulary);
    write({first}, {1, vocabulary}, real.floats("p1.logits")->values, greedy);
    const auto results = compare(model, path());
    ASSERT_TRUE(results) << results.error().message;
    ASSERT_EQ(results->size(), 2u);
    EXPECT_TRUE(results->front().holds());
    EXPECT_FALSE(results->back().holds());
    EXPECT_EQ(results->back().position, (std::vector<std::uint64_t>{4}));
}

TEST_F(Written, GoldensOfAnotherModelAreRefused) {
    write({7}, {1, 100}, std::vector<float>(100, 0));
    EXPECT_NE(why_not().find("[1, 100]"), std::string::npos) << why_not();
}

TEST_F(Written, MoreRowsThanTokensAreRefused) {
    write({7}, {2, vocabulary}, std::vector<float>(2 * vocabulary, 0));
    EXPECT_NE(why_not().find("another model"), std::string::npos) << why_not();
}

TEST_F(Written, TokensBeyondTheVocabularyAreRefused) {
    write({192}, {1, vocabulary}, std::vector<float>(vocabulary, 0));
    EXPECT_NE(why_not().find("192"), std::string::npos) << why_not();
}

TEST_F(Written, NegativeTokensAreRefused) {
    write({-1}, {1, vocabulary}, std::vector<float>(vocabulary, 0));
    EXPECT_NE(why_not().find("no token"), std::string::npos) << why_not();
}

TEST_F(Written, LogitsWithoutTokensAreRefused) {
    write({}, {1, vocabulary}, std::vector<float>(vocabulary, 0));
    EXPECT_NE(why_not().find("ids"), std::string::npos) << why_not();
}

TEST_F(Written, JsonBesideThemThatIsNoneIsRefused) {
    write({7}, {1, vocabulary}, std::vector<float>(vocabulary, 0));
    std::ofstream(std::filesystem::path(path()).replace_extension(".json")) << "{";
    EXPECT_NE(why_not().find("goldens.json"), std::string::npos) << why_not();
}

TEST(Goldens, ThatAreNotThereAreRefused) {
    EXPECT_FALSE(read_goldens("/nowhere", Json::object()));
    const auto empty = read_goldens(KAPITSA_SOURCE_DIR "/models/tiny", Json::object());
    ASSERT_FALSE(empty);
    EXPECT_NE(empty.error().message.find("holds no goldens"), std::string::npos);
}

}  // namespace
}  // namespace kapitsa

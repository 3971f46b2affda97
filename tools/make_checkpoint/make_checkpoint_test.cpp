// Every family in every form is written, loads, computes finite numbers, and is the same again by its seed.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "formats/checkpoint.h"
#include "make_checkpoint/writer.h"
#include "model/load.h"
#include "support/checkpoint_writer.h"

namespace kapitsa::random_checkpoint {
namespace {

std::string contents(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return std::move(text).str();
}

Result<std::uint64_t> write(const std::string& shape, const std::string& form, WriteOptions options) {
    const Form stored = *form_named(form);
    return write_checkpoint(*plan_of(shape, 0, expert_layout(stored)), stored, options);
}

/// Logits of five rows, then of one more.
Result<std::vector<float>> stepped(const std::string& folder) {
    const Checkpoint checkpoint = TRY(open_checkpoint(folder));
    const auto runner = TRY(load_runner(checkpoint, {.context = 64, .sequences = 1, .threads = 2}));
    std::vector<Page> pages;
    for (Page page = 0; page < runner->info().pages; ++page) pages.push_back(page);
    std::vector<float> all;
    for (const auto& [committed, rows] : {std::pair{0u, 5u}, std::pair{5u, 1u}}) {
        Step step;
        for (std::uint32_t row = 0; row < rows; ++row) {
            step.tokens.push_back(Token(7 + 31 * (committed + row)));
            step.parents.push_back(std::int32_t(row) - 1);
            step.wanted.push_back(row);
        }
        step.segments = {{0, 0, rows, committed, true, pages}};
        const std::span<float> logits = TRY(runner->forward(step));
        all.insert(all.end(), logits.begin(), logits.end());
    }
    return all;
}

class EveryForm : public testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(EveryForm, LoadsAndComputesFiniteLogits) {
    const auto& [shape, form] = GetParam();
    const TemporaryFolder temporary;
    const std::string folder = temporary.path() + "/made";
    const auto bytes = write(shape, form, {.folder = folder, .tokenizer = ""});
    ASSERT_TRUE(bytes) << bytes.error().message;
    const auto logits = stepped(folder);
    ASSERT_TRUE(logits) << logits.error().message;
    double squares = 0;
    for (const float logit : *logits) {
        ASSERT_TRUE(std::isfinite(logit));
        squares += double(logit) * logit;
    }
    const double rms = std::sqrt(squares / double(logits->size()));
    EXPECT_GT(rms, 0.01);  // on the unit sphere they are small
    EXPECT_LT(rms, 50);
}

INSTANTIATE_TEST_SUITE_P(
    All, EveryForm,
    testing::Combine(testing::Values("qwen3.5-tiny", "qwen3.5-moe-tiny", "nemotron-tiny", "nemotron-moe-tiny",
                                     "dory-tiny", "flint-tiny", "qwen3.8-flash-tiny"),
                     testing::Values("f32", "f16", "bf16", "affine2", "affine3", "affine4", "affine5",
                                     "affine6", "affine8", "nvfp4", "mxfp4", "mxfp8", "fp8")),
    [](const auto& it) {
        std::string name = std::get<0>(it.param) + "_" + std::get<1>(it.param);
        for (char& c : name)
            if (c == '-' || c == '.') c = '_';
        return name;
    });

TEST(RandomCheckpoint, IsTheSameByItsSeedAndAnotherByAnother) {
    const TemporaryFolder temporary;
    const auto made = [&](const std::string& name, std::uint64_t seed) {
        const std::string folder = temporary.path() + "/" + name;
        EXPECT_TRUE(write("flint-tiny", "affine4", {.folder = folder, .tokenizer = "", .seed = seed}));
        return contents(folder + "/model.safetensors");
    };
    const std::string first = made("a", 1);
    EXPECT_TRUE(first == made("b", 1));
    EXPECT_FALSE(first == made("c", 2));
}

TEST(RandomCheckpoint, InShardsIsTheSameModel) {
    const TemporaryFolder temporary;
    const std::string whole = temporary.path() + "/whole", parts = temporary.path() + "/parts";
    ASSERT_TRUE(write("nemotron-moe-tiny", "bf16", {.folder = whole, .tokenizer = ""}));
    ASSERT_TRUE(
        write("nemotron-moe-tiny", "bf16", {.folder = parts, .tokenizer = "", .shard_bytes = 2'000'000}));
    EXPECT_TRUE(std::filesystem::exists(parts + "/model.safetensors.index.json"));
    EXPECT_FALSE(std::filesystem::exists(parts + "/model.safetensors"));
    const auto one = stepped(whole), other = stepped(parts);
    ASSERT_TRUE(one && other);
    EXPECT_TRUE(*one == *other);
}

TEST(RandomCheckpoint, HasTheTokenizerItIsGiven) {
    const TemporaryFolder temporary;
    const std::string folder = temporary.path() + "/made";
    ASSERT_TRUE(
        write("dory-tiny", "mxfp4", {.folder = folder, .tokenizer = KAPITSA_SOURCE_DIR "/models/tiny"}));
    const auto checkpoint = open_checkpoint(folder);
    ASSERT_TRUE(checkpoint);
    EXPECT_TRUE(checkpoint->tokenizer());
    EXPECT_FALSE(checkpoint->chat_template.empty());
}

TEST(RandomCheckpoint, WhosePartsBeginInsideATileIsRefusedByName) {
    const Form fp8 = *form_named("fp8");
    Plan plan = *plan_of("nemotron-tiny", 0, expert_layout(fp8));
    plan.config["mamba_num_heads"] = 3;  // 192 rows of a gate, and tiles of 128
    plan.config["n_groups"] = 1;
    for (PlannedTensor& tensor : plan.tensors) {
        if (tensor.name.ends_with("in_proj.weight")) tensor.shape[0] = 2 * 192 + 2 * 32 + 3;
    }
    const TemporaryFolder temporary;
    const std::string folder = temporary.path() + "/made";
    ASSERT_TRUE(write_checkpoint(plan, fp8, {.folder = folder, .tokenizer = ""}));
    const auto logits = stepped(folder);
    ASSERT_FALSE(logits);
    EXPECT_NE(logits.error().message.find("backbone.layers.0.mixer.in_proj is cut at row 192"),
              std::string::npos)
        << logits.error().message;
}

TEST(RandomCheckpoint, WritesOverNothing) {
    const TemporaryFolder temporary;
    const auto refused = write("dory-tiny", "bf16", {.folder = temporary.path(), .tokenizer = ""});
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find("there already"), std::string::npos);
}

TEST(RandomCheckpoint, FewerLayersAreTheFirstOnes) {
    for (const Shape& shape : shapes()) {
        const auto all = plan_of(shape.name, 0, ExpertLayout::stacked),
                   few = plan_of(shape.name, 8, ExpertLayout::stacked);
        ASSERT_TRUE(all && few) << shape.name;
        EXPECT_LE(few->tensors.size(), all->tensors.size()) << shape.name;
    }
    EXPECT_FALSE(plan_of("qwen-nobody", 0, ExpertLayout::stacked));
}

TEST(RandomCheckpoint, PublishedShapesHaveTheirParameters) {
    for (const Shape& shape : shapes()) {
        if (shape.parameters == 0) continue;
        std::uint64_t elements = 0;
        const Plan plan = *plan_of(shape.name, 0, ExpertLayout::stacked);
        for (const PlannedTensor& tensor : plan.tensors) elements += tensor.elements();
        EXPECT_NEAR(double(elements), double(shape.parameters), 0.03 * double(shape.parameters))
            << shape.name;
    }
}

}  // namespace
}  // namespace kapitsa::random_checkpoint

// The golden models as GGUF files: their logits have the bits of the same weights in a model folder, and are
// the references'. And what a loader must refuse.

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "golden/gguf_files.h"
#include "golden/model_case.h"
#include "model/gguf_dialect.h"
#include "support/checkpoint_writer.h"
#include "support/gguf_model.h"
#include "support/golden.h"

namespace kapitsa {
namespace {

constexpr const char* source = "qwen3_5-dense";

/// A folder of the golden's weights, whose delta nets have their value heads in GGUF's order.
void write_tiled_folder(const std::string& golden, const std::string& folder) {
    Json config = read_golden_json(golden + "/config.json");
    const HeadOrder order(config);
    CHECK(order.shows());
    CheckpointWriter writer;
    for (auto& [name, tensor] : tensors_of(golden)) {
        order.tile(name, tensor);
        writer.add_floats(name, tensor.shape, tensor.values);
    }
    (config.contains("text_config") ? config["text_config"] : config)["linear_value_heads_tiled"] = true;
    writer.write(folder, config);
}

std::string name_of(std::string folder) {
    std::erase_if(folder, [](char c) { return c == '-' || c == '_'; });
    return folder;
}

class GgufDeltaNet : public testing::TestWithParam<const char*> {};

TEST_P(GgufDeltaNet, HasTheBitsOfAFolderInTheSameOrder) {
    const TemporaryFolder folder;
    const std::string file = folder.path() + "/model.gguf", plain = folder.path() + "/plain";
    gguf_of(GetParam(), ElementType::f32).write(file);
    write_tiled_folder(GetParam(), plain);
    EXPECT_EQ(logits_of(file), logits_of(plain));
}

TEST_P(GgufDeltaNet, TheOrderOfHeadsIsRoundingAndNoMore) {
    const TemporaryFolder folder;
    const std::string file = folder.path() + "/model.gguf";
    gguf_of(GetParam(), ElementType::f32).write(file);
    const Golden outputs(std::string(GetParam()) + "/golden.safetensors");
    const Json prompts = read_golden_json(std::string(GetParam()) + "/golden.json")["prompts"];
    ModelCase gguf(file);
    for (const char* length : {"7", "65", "200"}) {
        auto sequence = gguf.begin(1);
        const Logits logits = gguf.chain(sequence, tokens_of(prompts[length]["input_ids"]));
        const std::string name = "p" + std::string(length) + ".logits_fp32";
        EXPECT_LT(largest_difference(logits, outputs.floats(name).values), 5e-4) << length;
    }
}

INSTANTIATE_TEST_SUITE_P(Models, GgufDeltaNet, testing::Values("qwen3_5-dense", "qwen3_5-moe", "qwen4_exp"),
                         [](const auto& model) { return name_of(model.param); });

class GgufOfOthers : public testing::TestWithParam<const char*> {};

TEST_P(GgufOfOthers, HasTheBitsOfTheFolder) {
    const TemporaryFolder folder;
    const std::string file = folder.path() + "/model.gguf";
    gguf_of(GetParam(), ElementType::bf16).write(file);
    EXPECT_EQ(logits_of(file), logits_of(std::string("tests/data/goldens/") + GetParam()));
}

INSTANTIATE_TEST_SUITE_P(Models, GgufOfOthers,
                         testing::Values("nemotron_h-mamba", "nemotron_h-moe", "nemotron_h-latent", "flint"),
                         [](const auto& model) { return name_of(model.param); });

TEST(GgufForm, PartsAreOneModelWhicheverOfThemIsNamed) {
    const TemporaryFolder folder;
    const GgufWriter writer = gguf_of(source, ElementType::f32);
    writer.write(folder.path() + "/whole.gguf");
    writer.write_parts(folder.path() + "/cut", 3);
    const auto expected = logits_of(folder.path() + "/whole.gguf");
    EXPECT_EQ(logits_of(folder.path() + "/cut-00001-of-00003.gguf"), expected);
    EXPECT_EQ(logits_of(folder.path() + "/cut-00003-of-00003.gguf"), expected);
}

class GgufWidths : public testing::TestWithParam<ElementType> {};

TEST_P(GgufWidths, HasTheLogitsOfTheWeightsItStandsFor) {
    const TemporaryFolder folder;
    const std::string file = folder.path() + "/model.gguf", plain = folder.path() + "/plain.gguf";
    gguf_of(source, GetParam()).write(file);
    gguf_of(source, ElementType::f32, GetParam()).write(plain);  // the same weights, widened
    EXPECT_LT(largest_difference(logits_of(file), logits_of(plain)), 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Types, GgufWidths,
                         testing::Values(ElementType::f16, ElementType::bf16, ElementType::q8_0),
                         [](const auto& type) { return std::string(element_name(type.param)); });

TEST(GgufForm, WhatIsMissingOrWrongIsNamed) {
    const auto changed = [](auto change) {
        GgufWriter writer = gguf_of(source, ElementType::f32);
        change(writer);
        return refusal(writer);
    };
    expect_in("metadata: qwen35.block_count is missing",
              changed([](GgufWriter& w) { w.remove("qwen35.block_count"); }));
    expect_in("metadata: qwen35.attention.head_count is 0; it must be a whole number from 1",
              changed([](GgufWriter& w) { w.number("qwen35.attention.head_count", 0); }));
    expect_in("qwen35.rope.scaling.type is \"yarn\"; none is supported",
              changed([](GgufWriter& w) { w.text("qwen35.rope.scaling.type", "yarn"); }));
    expect_in("has the shape", changed([](GgufWriter& w) { w.number("qwen35.feed_forward_length", 32); }));
    expect_in("1 tensor that this model does not know, the first of them blk.0.extra.weight",
              changed([](GgufWriter& w) { w.floats("blk.0.extra.weight", ElementType::f32, {1}, {1.0f}); }));
    expect_in("is \"bert\"; GGUF files are read of these architectures: ",
              changed([](GgufWriter& w) { w.text("general.architecture", "bert"); }));
    expect_in("this is a vision tower (mmproj), no model of its own: name the model that it belongs to",
              changed([](GgufWriter& w) { w.text("general.architecture", "clip"); }));
}

TEST(GgufForm, PartsThatDoNotBelongTogetherAreRefused) {
    const TemporaryFolder folder;
    const GgufWriter writer = gguf_of(source, ElementType::f32);
    const std::string cut = folder.path() + "/cut";
    writer.write_parts(cut, 2);
    std::filesystem::copy_file(cut + "-00002-of-00002.gguf", folder.path() + "/alone.gguf");
    expect_in("metadata \"split.count\" says that it is one of 2 parts; its name must say so, too",
              open_model(folder.path() + "/alone.gguf").error().message);
    writer.write(cut + "-00002-of-00002.gguf");
    expect_in("its metadata (split.count) that it is whole",
              open_model(cut + "-00001-of-00002.gguf").error().message);
    std::filesystem::remove(cut + "-00002-of-00002.gguf");
    expect_in("cut-00002-of-00002.gguf", open_model(cut + "-00001-of-00002.gguf").error().message);
}

TEST(GgufForm, AFileThatIsNoneIsRefused) {
    expect_in("is no GGUF file", open_model(KAPITSA_SOURCE_DIR "/README.md").error().message);
}

}  // namespace
}  // namespace kapitsa

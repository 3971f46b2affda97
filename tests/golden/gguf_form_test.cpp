// The dense golden model as GGUF files: its logits have the bits of the same weights in a model folder, and
// are the references'. And what a loader must refuse.

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "golden/model_case.h"
#include "model/gguf_dialect.h"
#include "support/checkpoint_writer.h"
#include "support/gguf_model.h"
#include "support/golden.h"

namespace kapitsa {
namespace {

constexpr const char* source = "qwen3_5-dense";

const Json& golden_json() {
    static const Json file = read_golden_json("qwen3_5-dense/golden.json");
    return file;
}

Logits logits_of(const std::string& path) {
    ModelCase model(path);
    auto sequence = model.begin(0);
    Logits logits = model.chain(sequence, tokens_of(golden_json()["prompts"]["65"]["input_ids"]));
    for (const Token token : {3, 141, 59}) {  // and the path of few rows
        const Logits row = model.chain(sequence, {token});
        logits.insert(logits.end(), row.begin(), row.end());
    }
    return logits;
}

/// A model folder whose delta nets have their value heads in GGUF's order.
void write_tiled_folder(const std::string& folder) {
    Json config = read_golden_json(std::string(source) + "/config.json");
    const HeadOrder order(config);
    const Golden model(std::string(source) + "/model.safetensors");
    CheckpointWriter writer;
    for (const std::string& name : model.names()) {
        auto tensor = model.floats(name);
        order.tile(name, tensor);
        writer.add_floats(name, tensor.shape, tensor.values);
    }
    (config.contains("text_config") ? config["text_config"] : config)["linear_value_heads_tiled"] = true;
    writer.write(folder, config);
}

TEST(GgufForm, HasTheBitsOfAFolderInTheSameOrder) {
    const TemporaryFolder folder;
    const std::string file = folder.path() + "/model.gguf", plain = folder.path() + "/plain";
    gguf_of(source, ElementType::f32).write(file);
    write_tiled_folder(plain);
    EXPECT_EQ(logits_of(file), logits_of(plain));
}

TEST(GgufForm, TheOrderOfHeadsIsRoundingAndNoMore) {
    const TemporaryFolder folder;
    const std::string file = folder.path() + "/model.gguf";
    gguf_of(source, ElementType::f32).write(file);
    const Golden model(std::string(source) + "/golden.safetensors");
    ModelCase gguf(file);
    for (const int length : {1, 7, 65, 200}) {
        auto sequence = gguf.begin(1);
        const auto prompt = golden_json()["prompts"][std::to_string(length)];
        const Logits logits = gguf.chain(sequence, tokens_of(prompt["input_ids"]));
        EXPECT_LT(
            largest_difference(logits, model.floats("p" + std::to_string(length) + ".logits_fp32").values),
            5e-4)
            << length;
    }
}

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

TEST_P(GgufWidths, AFolderOfTheSameTypeHasTheSameLogits) {
    const TemporaryFolder folder;
    const std::string file = folder.path() + "/model.gguf", plain = folder.path() + "/plain.gguf";
    gguf_of(source, GetParam()).write(file);
    gguf_of(source, ElementType::f32, GetParam()).write(plain);  // the same weights, widened
    EXPECT_LT(largest_difference(logits_of(file), logits_of(plain)), 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Types, GgufWidths, testing::Values(ElementType::f16, ElementType::bf16),
                         [](const auto& type) { return std::string(element_name(type.param)); });

/// What opening the file and loading a model from it says.
std::string refusal(const GgufWriter& writer) {
    const TemporaryFolder folder;
    writer.write(folder.path() + "/model.gguf");
    const auto checkpoint = open_model(folder.path() + "/model.gguf");
    if (!checkpoint) return checkpoint.error().message;
    const auto runner = load_runner(*checkpoint);
    return runner ? "loaded" : runner.error().message;
}

void expect_in(const std::string& part, const std::string& text) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

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
    expect_in("this is a vision tower (mmproj), no model of its own",
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

// Qwen3.8-Flash-Next against the outputs of the reference implementation, from the same weights in f32
// arithmetic (the README beside them says how they were made), and the constants of its hash against those of
// the published size.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "golden/model_case.h"
#include "model/layers/ngram_hash.h"
#include "support/golden.h"

namespace kapitsa {
namespace {

using Streams = ModelRunner::Streams;
constexpr const char* folder = "tests/data/goldens/qwen4_exp";
constexpr std::uint32_t layers = 6;
constexpr double logit_gate = 5e-4, hidden_gate = 2e-4, state_gate = 1e-5;
// Of the recurrent memories: the table's tokens and inputs stand before the delta net of their layer.
constexpr std::uint32_t tokens_place = 1, inputs_place = 2, delta_place = 3;
// Of the attention memories: those of layer 2, and of its indexer.
constexpr std::uint32_t attention_place = 0, index_place = 1;

Json prompts() { return read_golden_json("qwen4_exp/golden.json")["prompts"]; }

class FlashNext : public testing::TestWithParam<int> {
protected:
    std::string name(const std::string& what) const { return "p" + std::to_string(GetParam()) + "." + what; }
    std::vector<float> floats(const std::string& what) const { return outputs_.floats(name(what)).values; }
    bool has(const std::string& what) const { return outputs_.has(name(what)); }

    const Golden outputs_{"qwen4_exp/golden.safetensors"};
    const Json prompt_ = prompts()[std::to_string(GetParam())];
    const std::vector<Token> tokens_ = tokens_of(prompt_["input_ids"]),
                             greedy_ = tokens_of(prompt_["greedy"]);
};

TEST_P(FlashNext, LogitsAtEveryPositionAreTheReferencesWhateverTheChunks) {
    ModelCase model(folder);
    for (const std::size_t chunk : {512u, 64u, 37u, 1u}) {
        auto sequence = model.begin(3);
        Logits all;
        for (std::size_t at = 0; at < tokens_.size(); at += chunk) {
            const std::size_t end = std::min(at + chunk, tokens_.size());
            const Logits part = model.chain(
                sequence, {tokens_.begin() + std::ptrdiff_t(at), tokens_.begin() + std::ptrdiff_t(end)});
            all.insert(all.end(), part.begin(), part.end());
        }
        EXPECT_LT(largest_difference(all, floats("logits_fp32")), logit_gate) << "chunks of " << chunk;
    }
}

TEST_P(FlashNext, EveryLayersStreamsAreTheReferences) {
    std::vector<std::uint32_t> taps(layers);
    std::iota(taps.begin(), taps.end(), 0);
    ModelCase model(folder, {}, taps);
    auto sequence = model.begin(0);
    model.chain(sequence, tokens_);
    const auto hidden = outputs_.floats(name("hidden_fp32"));  // [layers, rows, streams * width]
    const std::size_t floats_of_layer = hidden.shape[1] * hidden.shape[2];
    for (std::uint32_t layer = 0; layer < layers; ++layer) {
        auto ours = *model.runner().tapped(layer);
        ASSERT_GE(ours.size(), floats_of_layer);
        ours.erase(ours.begin(), ours.end() - std::ptrdiff_t(floats_of_layer));
        const auto from = hidden.values.begin() + std::ptrdiff_t(layer * floats_of_layer);
        EXPECT_LT(largest_difference(ours, {from, from + std::ptrdiff_t(floats_of_layer)}), hidden_gate)
            << "layer " << layer;
    }
}

TEST_P(FlashNext, GreedyAnswersAreTheReferences) {
    ModelCase model(folder);
    EXPECT_EQ(greedy_answer(model, tokens_, greedy_.size()), greedy_);
}

TEST_P(FlashNext, WhatSparseAttentionRemembersIsTheReferences) {
    ModelCase model(folder);
    auto sequence = model.begin(2);
    model.chain(sequence, tokens_);
    EXPECT_LT(largest_difference(model.remembered(sequence, index_place).keys, floats("layer2.indexer_keys")),
              state_gate);
    if (!has("layer2.k")) return;  // of the longest prompt they are not in the golden
    const auto remembered = model.remembered(sequence, attention_place);
    EXPECT_LT(largest_difference(remembered.keys, floats("layer2.k")), hidden_gate);
    EXPECT_LT(largest_difference(remembered.values, floats("layer2.v")), state_gate);
}

TEST_P(FlashNext, WhatALayerWithATableRemembersIsTheReferences) {
    ModelCase model(folder);
    auto sequence = model.begin(1);
    model.chain(sequence, tokens_);
    EXPECT_LT(
        largest_difference(*model.runner().recurrent_state(1, delta_place), floats("layer1.recurrent_state")),
        state_gate);
    const auto turned = [&](const std::string& what) {  // [channels, columns] to [columns, channels]
        const auto stored = outputs_.floats(name(what));
        std::vector<float> all;
        for (std::size_t i = 0; i < stored.shape[1]; ++i)
            for (std::size_t c = 0; c < stored.shape[0]; ++c)
                all.push_back(stored.values[c * stored.shape[1] + i]);
        return all;
    };
    EXPECT_LT(largest_difference(*model.runner().conv_tail(1, inputs_place), turned("layer1.ple_conv_state")),
              state_gate);
    auto conv_state = turned("layer1.conv_state");  // a column more than can matter, the oldest
    conv_state.erase(conv_state.begin(), conv_state.begin() + std::ptrdiff_t(conv_state.size() / 4));
    EXPECT_LT(largest_difference(*model.runner().conv_tail(1, delta_place), conv_state), state_gate);
    auto marks = *model.runner().conv_tail(1, tokens_place);
    for (float& mark : marks) mark = mark == 0 ? 304.0f : mark - 1;  // before the beginning: the end of text
    EXPECT_EQ(marks, floats("layer1.ngram_context"));
}

TEST_P(FlashNext, TheHeadThatDraftsIsTheReferences) {
    if (!has("mtp_draft_logits_fp32")) GTEST_SKIP() << "the reference drafts from two tokens on";
    ModelCase model(folder, {.drafter = true});
    ASSERT_TRUE(model.runner().drafts());
    auto sequence = model.begin(1);
    model.chain(sequence, tokens_);
    std::vector<Token> next(tokens_.begin() + 1, tokens_.end());
    next.push_back(greedy_[0]);
    std::vector<std::uint32_t> rows(tokens_.size());
    std::iota(rows.begin(), rows.end(), 0);
    const Logits all = model.draft(sequence, 0, next, Streams::of_model, rows);
    auto wide = *model.runner().drafted();
    const auto last_wide = floats("mtp_wide_fp32");
    wide.erase(wide.begin(), wide.end() - std::ptrdiff_t(last_wide.size()));
    EXPECT_LT(largest_difference(wide, last_wide), logit_gate);
    const auto length = std::uint32_t(tokens_.size());
    Logits guesses = row_of(all, length - 1, model.vocabulary());
    std::vector<Token> drafts{argmax(guesses)};
    for (std::uint32_t i = 0; i < 3; ++i) {
        const std::uint32_t before = i == 0 ? length - 1 : 0;
        const Logits logits =
            model.draft(sequence, length + i, {drafts.back()}, Streams::of_drafter, {before});
        drafts.push_back(argmax(logits));
        guesses.insert(guesses.end(), logits.begin(), logits.end());
    }
    EXPECT_LT(largest_difference(guesses, floats("mtp_draft_logits_fp32")), logit_gate);
    EXPECT_EQ(drafts, tokens_of(prompt_["mtp"]["drafts"]));
    if (has("mtp_prompt_logits_fp32")) {
        EXPECT_LT(largest_difference(all, floats("mtp_prompt_logits_fp32")), logit_gate);
    }
}

TEST(FlashNextPrecision, LogitsAreThoseOfDoublesToTheNoiseOfF32) {
    ModelCase model(folder);
    auto sequence = model.begin(0);
    const auto logits = model.chain(sequence, tokens_of(prompts()["65"]["input_ids"]));
    const double difference = largest_difference(
        logits, Golden("qwen4_exp/logits_f64.safetensors").floats("p65.logits_fp64").values);
    RecordProperty("largest_difference", std::to_string(difference));
    EXPECT_LT(difference, logit_gate);
}

INSTANTIATE_TEST_SUITE_P(Prompts, FlashNext, testing::Values(1, 2, 7, 65, 200));

TEST(FlashNextTree, EachNodeIsTheReferenceOfItsPath) {
    const Golden outputs("qwen4_exp/golden.safetensors");
    ModelCase model(folder);
    auto sequence = model.begin(0);
    model.chain(sequence, tokens_of(prompts()["65"]["input_ids"]));
    std::vector<Token> tokens;
    std::vector<std::int32_t> parents;
    for (const std::int64_t token : outputs.ints("tree.tokens").values) tokens.push_back(Token(token));
    for (const std::int64_t parent : outputs.ints("tree.parents").values)
        parents.push_back(std::int32_t(parent));
    const Logits logits = model.step({{&sequence, tokens, parents, false}}).front();
    EXPECT_LT(largest_difference(logits, outputs.floats("tree.logits_fp32").values), logit_gate);
}

TEST(NgramHash, ConstantsAreThoseOfThePublishedSize) {
    const Json published = read_golden_json("qwen4_exp/hash_vectors.json");
    for (const std::uint32_t module : {0u, 1u}) {
        const Json& want = published["ple_index_" + std::to_string(module)];
        const auto hash = NgramHash::compute(
            {published["vocab_size"], 3, 8, published["ngram_vocab_size_base"], 128, 1234, module});
        EXPECT_EQ(hash.multipliers, want["multipliers"].get<std::vector<std::uint64_t>>());
        EXPECT_EQ(hash.sizes, want["sizes"].get<std::vector<std::uint64_t>>());
        EXPECT_EQ(hash.offsets, want["offsets"].get<std::vector<std::uint64_t>>());
        EXPECT_EQ(hash.rows(128).value(), want["padded"].get<std::uint32_t>());
    }
}

TEST(NgramHash, PartsThatLieBeyondTheTableAreRefused) {
    NgramHash hash{{1, 3}, {5, 7}, {0, 5}};
    EXPECT_EQ(hash.rows(8).value(), 16u);
    hash.offsets[1] = 10;
    EXPECT_FALSE(hash.rows(8).has_value());
    hash.offsets[1] = ~std::uint64_t{0};
    EXPECT_FALSE(hash.rows(8).has_value());
    hash = {{1, 3}, {5, 0}, {0, 5}};
    EXPECT_FALSE(hash.rows(8).has_value());
    hash = {{1, 3}, {5, std::uint64_t{1} << 32}, {0, 5}};
    EXPECT_FALSE(hash.rows(8).has_value());
}

}  // namespace
}  // namespace kapitsa

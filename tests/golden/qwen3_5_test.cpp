// Qwen3.5 dense against the outputs of the reference implementation, from the same weights in f32 arithmetic
// (tests/data/goldens/qwen3_5-dense/README.md says how they were made). Two correct orders of summation
// differ by up to 2e-4 in a logit here; the gates leave room for that and for no more than a few times it.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "golden/model_case.h"
#include "support/golden.h"

namespace kapitsa {
namespace {

constexpr const char* folder = "tests/data/goldens/qwen3_5-dense";
constexpr double logit_gate = 5e-4, hidden_gate = 5e-4, state_gate = 1e-5;
// Row by row the delta rule adds in another order than the reference's chunks: 5.3e-4 was seen.
constexpr double stepped_logit_gate = 1e-3;
constexpr std::uint32_t layers = 8;

const Golden& golden() {
    static const Golden file("qwen3_5-dense/golden.safetensors");
    return file;
}
const Json& golden_json() {
    static const Json file = read_golden_json("qwen3_5-dense/golden.json");
    return file;
}
std::vector<Token> prompt(int length) {
    return tokens_of(golden_json()["prompts"][std::to_string(length)]["input_ids"]);
}
std::string name(int length, const std::string& what) { return "p" + std::to_string(length) + "." + what; }

class Qwen35Golden : public testing::TestWithParam<int> {};

TEST_P(Qwen35Golden, LogitsAtEveryPositionAreTheReferences) {
    ModelCase model(folder);
    auto sequence = model.begin(3);
    const Logits logits = model.chain(sequence, prompt(GetParam()));
    const double difference =
        largest_difference(logits, golden().floats(name(GetParam(), "logits_fp32")).values);
    RecordProperty("largest_difference", std::to_string(difference));
    EXPECT_LT(difference, logit_gate);
}

TEST_P(Qwen35Golden, TokenByTokenIsTheSameModel) {
    ModelCase model(folder);
    auto sequence = model.begin(0);
    Logits logits;
    for (const Token token : prompt(GetParam())) {
        const Logits row = model.chain(sequence, {token});
        logits.insert(logits.end(), row.begin(), row.end());
    }
    EXPECT_LT(largest_difference(logits, golden().floats(name(GetParam(), "logits_fp32")).values),
              stepped_logit_gate);
}

TEST_P(Qwen35Golden, EveryLayersOutputIsTheReferences) {
    std::vector<std::uint32_t> all;
    for (std::uint32_t layer = 0; layer <= layers; ++layer) all.push_back(layer);
    ModelCase model(folder, {}, all);
    auto sequence = model.begin(0);
    model.chain(sequence, prompt(GetParam()));
    const auto hidden = golden().floats(name(GetParam(), "hidden_fp32"));  // [layers + 1, rows, width]
    const std::size_t rows = hidden.shape[1], width = hidden.shape[2];
    for (std::uint32_t layer = 0; layer <= layers; ++layer) {
        auto ours = *model.runner().tapped(layer);
        ours.erase(ours.begin(),
                   ours.end() - std::ptrdiff_t(rows * width));  // some have the last position alone
        const auto from = hidden.values.begin() + std::ptrdiff_t(layer * rows * width);
        EXPECT_LT(largest_difference(ours, {from, from + std::ptrdiff_t(rows * width)}), hidden_gate)
            << "layer " << layer;
    }
}

TEST_P(Qwen35Golden, GreedyAnswersAreTheReferences) {
    ModelCase model(folder);
    auto sequence = model.begin(0);
    const auto expected = tokens_of(golden_json()["prompts"][std::to_string(GetParam())]["greedy"]);
    Logits logits = model.chain(sequence, prompt(GetParam()));
    std::vector<Token> answer;
    while (answer.size() < expected.size()) {
        answer.push_back(argmax(&logits[logits.size() - model.vocabulary()], model.vocabulary()));
        logits = model.chain(sequence, {answer.back()});
    }
    EXPECT_EQ(answer, expected);
}

INSTANTIATE_TEST_SUITE_P(Lengths, Qwen35Golden, testing::Values(1, 7, 64, 65, 200));

class Qwen35State : public testing::TestWithParam<int> {};

TEST_P(Qwen35State, RecurrentStateAndConvTailAreTheReferencesWhateverTheChunks) {
    ModelCase model(folder);
    const auto tokens = prompt(GetParam());
    const auto expected = golden().floats(name(GetParam(), "layer1.recurrent_state")).values;
    const auto conv = golden().floats(name(GetParam(), "layer1.conv_state"));  // [channels, 4], oldest first
    const std::size_t channels = conv.shape[0];
    std::vector<float> tail;  // [3, channels]
    for (std::size_t tap = 1; tap < 4; ++tap)
        for (std::size_t c = 0; c < channels; ++c) tail.push_back(conv.values[c * 4 + tap]);

    for (const std::size_t chunk :
         {std::size_t(512), std::size_t(64), std::size_t(48), std::size_t(17), std::size_t(1)}) {
        auto sequence = model.begin(1);
        for (std::size_t at = 0; at < tokens.size(); at += chunk)
            model.chain(sequence, {tokens.begin() + std::ptrdiff_t(at),
                                   tokens.begin() + std::ptrdiff_t(std::min(at + chunk, tokens.size()))});
        EXPECT_LT(largest_difference(*model.runner().recurrent_state(1, 1), expected), state_gate)
            << "chunks of " << chunk;
        EXPECT_LT(largest_difference(*model.runner().conv_tail(1, 1), tail), state_gate)
            << "chunks of " << chunk;
    }
}

INSTANTIATE_TEST_SUITE_P(Lengths, Qwen35State, testing::Values(1, 7, 65, 200));

TEST(Qwen35, AnySplitOfThePromptGivesTheSameLogits) {
    ModelCase model(folder);
    const auto tokens = prompt(200);
    const auto expected = golden().floats("p200.logits_fp32").values;
    for (const std::vector<std::size_t>& cuts : {std::vector<std::size_t>{200},
                                                 {64, 64, 72},
                                                 {1, 199},
                                                 {63, 2, 135},
                                                 {17, 16, 33, 134},
                                                 {100, 100}}) {
        auto sequence = model.begin(2);
        Logits logits;
        auto from = tokens.begin();
        for (const std::size_t rows : cuts) {
            const Logits part = model.chain(sequence, {from, from + std::ptrdiff_t(rows)});
            logits.insert(logits.end(), part.begin(), part.end());
            from += std::ptrdiff_t(rows);
        }
        EXPECT_LT(largest_difference(logits, expected), stepped_logit_gate) << "cut at " << cuts.front();
    }
}

}  // namespace
}  // namespace kapitsa

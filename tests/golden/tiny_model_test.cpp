// The built-in model against goldens from the reference implementation: prompts, logits, taps, and greedy
// answers. The 4-bit form ships with the project; the bf16 form does not, and its tests say so when it is not
// there.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "golden/model_case.h"
#include "support/golden.h"

namespace kapitsa {
namespace {

// Independent implementations in f32 agree to 4e-5 here.
constexpr double gate = 5e-4;
constexpr const char* prompts[] = {"hello", "code_chat", "thinking", "tool_call", "completion", "multi_turn"};

void expect_the_goldens(const std::string& folder, const std::string& form) {
    const Golden golden("tiny-" + form + "/goldens-" + form + ".safetensors");
    const Json json = read_golden_json("tiny-" + form + "/goldens-" + form + ".json");
    ModelCase model(folder, {}, {1, 9});
    for (const std::string prompt : prompts) {
        const auto ids = tokens_of(json[prompt]["ids"]), expected = tokens_of(json[prompt]["greedy_ids"]);
        auto sequence = model.begin(0);
        Logits logits = model.chain(sequence, ids);
        const Logits last8(logits.end() - std::ptrdiff_t(8 * model.vocabulary()), logits.end());
        EXPECT_LT(largest_difference(last8, golden.floats(form + "." + prompt + ".logits").values), gate)
            << prompt;

        std::vector<float> taps;
        for (const std::size_t tap : {0u, 1u}) {
            const auto all = *model.runner().tapped(tap);
            taps.insert(taps.end(), all.end() - std::ptrdiff_t(model.runner().shape().width), all.end());
        }
        EXPECT_LT(largest_difference(taps, golden.floats(form + "." + prompt + ".taps").values), gate)
            << prompt;

        std::vector<Token> answer;
        while (answer.size() < expected.size()) {
            answer.push_back(argmax(&logits[logits.size() - model.vocabulary()], model.vocabulary()));
            logits = model.chain(sequence, {answer.back()});
        }
        EXPECT_EQ(answer, expected) << prompt;
    }
}

TEST(TinyModel, FourBitIsTheReferences) { expect_the_goldens("models/tiny", "mlx4"); }

TEST(TinyModel, Bf16IsTheReferences) {
    const auto folder = tiny_bf16_folder();
    if (!folder) GTEST_SKIP() << no_tiny_bf16;
    expect_the_goldens(*folder, "bf16");
}

}  // namespace
}  // namespace kapitsa

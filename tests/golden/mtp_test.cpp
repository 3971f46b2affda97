// The drafting head of Qwen3.5 against the golden: entries for a whole prompt, guesses chained on guesses,
// and the guess after true tokens took the place of guessed ones. Positions, tokens and streams are those of
// the READMEs beside the goldens.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "golden/model_case.h"
#include "support/golden.h"

namespace kapitsa {
namespace {

using Streams = ModelRunner::Streams;
constexpr double gate = 5e-4;

std::vector<std::uint32_t> rows(std::uint32_t first, std::uint32_t count) {
    std::vector<std::uint32_t> all(count);
    std::iota(all.begin(), all.end(), first);
    return all;
}

struct Case {
    const char* golden;
    int length;
};

class Mtp : public testing::TestWithParam<Case> {
protected:
    Mtp()
        : folder_(std::string("tests/data/goldens/") + GetParam().golden),
          outputs_(std::string(GetParam().golden) + "/golden.safetensors"),
          prompt_(read_golden_json(std::string(GetParam().golden) +
                                   "/golden.json")["prompts"][std::to_string(GetParam().length)]),
          tokens_(tokens_of(prompt_["input_ids"])),
          greedy_(tokens_of(prompt_["greedy"])) {}

    ModelCase model() const { return ModelCase(folder_, {.drafter = true}); }
    std::vector<float> floats(const std::string& what) const {
        return outputs_.floats("p" + std::to_string(GetParam().length) + "." + what).values;
    }
    std::uint32_t length() const { return std::uint32_t(tokens_.size()); }
    /// The token behind each of the prompt's, the last one being the model's own choice.
    std::vector<Token> next_tokens() const {
        std::vector<Token> next(tokens_.begin() + 1, tokens_.end());
        next.push_back(greedy_[0]);
        return next;
    }

    std::string folder_;
    Golden outputs_;
    Json prompt_;
    std::vector<Token> tokens_, greedy_;
};

TEST_P(Mtp, EntriesOfThePromptAreTheReferences) {
    ModelCase model = this->model();
    ASSERT_TRUE(model.runner().drafts());
    auto sequence = model.begin(2);
    model.chain(sequence, tokens_);
    const Logits logits = model.draft(sequence, 0, next_tokens(), Streams::of_model, rows(0, length()));
    const auto want = floats("mtp_hidden_fp32");  // of all entries, or of the last
    auto got = *model.runner().drafted();
    got.erase(got.begin(), got.end() - std::ptrdiff_t(want.size()));
    EXPECT_LT(largest_difference(got, want), gate);
    if (GetParam().length == 65) {
        EXPECT_LT(largest_difference(logits, floats("mtp_prompt_logits_fp32")), gate);
    }
}

TEST_P(Mtp, ChainedGuessesAndTheGuessAfterTrueTokensAreTheReferences) {
    ModelCase model = this->model();
    auto sequence = model.begin(1);
    model.chain(sequence, tokens_);
    Logits all = model.draft(sequence, 0, next_tokens(), Streams::of_model, rows(0, length()));
    Logits guesses = row_of(all, length() - 1, model.vocabulary());
    std::vector<Token> drafts{argmax(guesses)};
    for (std::uint32_t i = 0; i < 3; ++i) {
        const std::uint32_t last = i == 0 ? length() - 1 : 0;  // the row of the guess before
        const Logits next = model.draft(sequence, length() + i, {drafts.back()}, Streams::of_drafter, {last});
        drafts.push_back(argmax(next));
        guesses.insert(guesses.end(), next.begin(), next.end());
    }
    EXPECT_LT(largest_difference(guesses, floats("mtp_draft_logits_fp32")), gate);
    EXPECT_EQ(drafts, tokens_of(prompt_["mtp"]["drafts"]));

    model.chain(sequence, {greedy_.begin(), greedy_.begin() + 3});
    const Logits after = model.draft(sequence, length(), {greedy_.begin() + 1, greedy_.begin() + 4},
                                     Streams::of_model, rows(0, 3));
    const Logits last = row_of(after, 2, model.vocabulary());
    EXPECT_LT(largest_difference(last, floats("mtp_after3_logits_fp32")), gate);
    EXPECT_EQ(argmax(last), prompt_["mtp"]["after3_draft"].get<Token>());
}

TEST_P(Mtp, EntriesHaveTheSameBitsHoweverThePromptIsCut) {
    ModelCase model = this->model();
    auto sequence = model.begin(0);
    model.chain(sequence, tokens_);
    const auto next = next_tokens();
    const Logits whole = model.draft(sequence, 0, next, Streams::of_model, rows(0, length()));
    for (const std::uint32_t piece : {1u, 3u, 16u, 64u}) {
        Logits pieces;
        for (std::uint32_t at = 0; at < length(); at += piece) {
            const std::uint32_t count = std::min(piece, length() - at);
            const Logits part = model.draft(sequence, at, {next.begin() + at, next.begin() + at + count},
                                            Streams::of_model, rows(at, count));
            pieces.insert(pieces.end(), part.begin(), part.end());
        }
        ASSERT_EQ(pieces, whole) << "pieces of " << piece;
    }
}

INSTANTIATE_TEST_SUITE_P(Prompts, Mtp,
                         testing::Values(Case{"qwen3_5-mtp", 1}, Case{"qwen3_5-mtp", 7},
                                         Case{"qwen3_5-mtp", 64}, Case{"qwen3_5-mtp", 65},
                                         Case{"qwen3_5-mtp", 200}, Case{"qwen3_5-moe", 1},
                                         Case{"qwen3_5-moe", 7}, Case{"qwen3_5-moe", 64},
                                         Case{"qwen3_5-moe", 65}, Case{"qwen3_5-moe", 200}),
                         [](const auto& of) {
                             return (std::string(of.param.golden) == "qwen3_5-moe" ? "Experts" : "Dense") +
                                    std::to_string(of.param.length);
                         });

TEST(Drafter, LeavesTheModelAndItsOpenDraftsAsTheyAre) {
    const std::string folder = "tests/data/goldens/qwen3_5-moe";
    ModelCase with(folder, {.drafter = true}), without(folder);
    EXPECT_FALSE(without.runner().drafts());
    std::vector<Logits> answers;
    for (ModelCase* model : {&with, &without}) {
        auto sequence = model->begin(0);
        Logits all = model->chain(sequence, {5, 17, 300, 4, 4, 91});
        const auto draft = model->step({{&sequence, {9, 8, 7, 6}, {-1, 0, 0, 2}, false}}).front();
        all.insert(all.end(), draft.begin(), draft.end());
        if (model->runner().drafts()) model->draft(sequence, 6, {1, 2}, Streams::of_model, {0, 3});
        model->accept(sequence, {0, 2, 3});
        const auto next = model->chain(sequence, {11});
        all.insert(all.end(), next.begin(), next.end());
        answers.push_back(all);
    }
    EXPECT_EQ(answers[0], answers[1]);
}

TEST(Drafter, IsNotThereWhereTheCheckpointHoldsNone) {
    EXPECT_FALSE(ModelCase("tests/data/goldens/qwen3_5-dense", {.drafter = true}).runner().drafts());
}

}  // namespace
}  // namespace kapitsa

// What must not change a bit: the company that a row has in its step, whether it came as a chain or in a
// tree, how many threads computed it, and whether what was accepted had been a draft.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "golden/model_case.h"
#include "support/golden.h"

namespace kapitsa {
namespace {

struct Subject {
    const char* name;
    const char* folder;
    std::uint32_t vocabulary;
};

class Equality : public testing::TestWithParam<Subject> {
protected:
    std::vector<Token> random_tokens(std::size_t count) {
        std::vector<Token> tokens(count);
        for (Token& token : tokens) token = Token(random_() % GetParam().vocabulary);
        return tokens;
    }
    std::mt19937 random_{7};
};

/// A tree as parents by number, and for a row the tokens of its ancestors and itself.
std::vector<Token> path_tokens(const std::vector<Token>& tokens, const std::vector<std::int32_t>& parents,
                               std::size_t row) {
    std::vector<Token> path;
    for (auto at = std::int32_t(row); at >= 0; at = parents[std::size_t(at)])
        path.insert(path.begin(), tokens[std::size_t(at)]);
    return path;
}

TEST_P(Equality, EachRowOfATreeHasTheBitsOfTheChainOfItsAncestors) {
    ModelCase model(GetParam().folder);
    for (const std::size_t committed : {0u, 5u, 31u}) {
        const auto head = random_tokens(committed);
        const std::vector<std::int32_t> parents{-1, 0, 0, 1, 1, 2, 4, -1, 7, 6, 9, 10, 11, 12, 13, 3};
        const auto tokens = random_tokens(parents.size());
        auto sequence = model.begin(0);
        if (committed) model.chain(sequence, head);
        const Logits tree = model.step({{&sequence, tokens, parents, false}}).front();
        for (std::size_t row = 0; row < tokens.size(); ++row) {
            auto alone = model.begin(1);
            if (committed) model.chain(alone, head);
            Logits logits;
            for (const Token token : path_tokens(tokens, parents, row)) logits = model.chain(alone, {token});
            ASSERT_EQ(row_of(tree, row, model.vocabulary()), logits)
                << "row " << row << " after " << committed;
        }
    }
}

TEST_P(Equality, CommittingAnyPathEqualsHavingDecodedIt) {
    ModelCase model(GetParam().folder);
    for (int round = 0; round < 12; ++round) {
        const auto head = random_tokens(1 + random_() % 40);
        const std::size_t rows = 2 + random_() % 15;
        std::vector<std::int32_t> parents{-1};
        for (std::size_t i = 1; i < rows; ++i) parents.push_back(std::int32_t(random_() % (i + 1)) - 1);
        const auto tokens = random_tokens(rows);
        std::vector<std::uint32_t> path;
        for (auto at = std::int32_t(random_() % rows); at >= 0; at = parents[std::size_t(at)])
            path.insert(path.begin(), std::uint32_t(at));

        auto drafted = model.begin(0), decoded = model.begin(1);
        model.chain(drafted, head);
        model.chain(decoded, head);
        model.step({{&drafted, tokens, parents, false}});
        model.accept(drafted, path);
        for (const std::uint32_t row : path) model.chain(decoded, {tokens[row]});
        for (std::uint32_t layer = 0; layer < model.runner().shape().recurrent.size(); ++layer) {
            ASSERT_EQ(*model.runner().recurrent_state(0, layer), *model.runner().recurrent_state(1, layer));
            ASSERT_EQ(*model.runner().conv_tail(0, layer), *model.runner().conv_tail(1, layer));
        }
        for (int more = 0; more < 4; ++more) {
            const auto next = random_tokens(1);
            ASSERT_EQ(model.chain(drafted, next), model.chain(decoded, next)) << "round " << round;
        }
    }
}

TEST_P(Equality, ADraftThatIsForgottenLeavesNoTrace) {
    ModelCase model(GetParam().folder);
    const auto head = random_tokens(37), draft = random_tokens(9), next = random_tokens(6);
    auto touched = model.begin(0), untouched = model.begin(1);
    model.chain(touched, head);
    model.chain(untouched, head);
    model.step({{&touched, draft, {}, false}});
    for (const Token token : next) ASSERT_EQ(model.chain(touched, {token}), model.chain(untouched, {token}));
}

TEST_P(Equality, UpTo16RowsOfASequenceHaveTheBitsOfOneAtATime) {
    ModelCase model(GetParam().folder);
    const auto head = random_tokens(21), tokens = random_tokens(16);
    auto alone = model.begin(1);
    model.chain(alone, head);
    Logits expected;
    for (const Token token : tokens) {
        const Logits row = model.chain(alone, {token});
        expected.insert(expected.end(), row.begin(), row.end());
    }
    for (std::size_t rows = 1; rows <= tokens.size(); ++rows) {
        auto together = model.begin(0);
        model.chain(together, head);
        const Logits logits = model.chain(together, {tokens.begin(), tokens.begin() + std::ptrdiff_t(rows)});
        ASSERT_TRUE(std::equal(logits.begin(), logits.end(), expected.begin())) << rows << " rows";
    }
}

TEST_P(Equality, SequencesInOneStepDoNotDisturbEachOther) {
    ModelCase model(GetParam().folder);
    const std::vector<std::vector<Token>> heads{random_tokens(1), random_tokens(64), random_tokens(100),
                                                random_tokens(13)};
    const std::vector<std::vector<Token>> more{random_tokens(8), random_tokens(8), random_tokens(8),
                                               random_tokens(8)};
    std::vector<std::vector<Logits>> alone(heads.size());
    for (std::size_t s = 0; s < heads.size(); ++s) {
        auto sequence = model.begin(7);
        alone[s].push_back(model.chain(sequence, heads[s]));
        for (const Token token : more[s]) alone[s].push_back(model.chain(sequence, {token}));
    }
    std::vector<ModelCase::Sequence> sequences;
    for (std::uint32_t s = 0; s < heads.size(); ++s) sequences.push_back(model.begin(s));
    std::vector<ModelCase::Rows> prompts;
    for (std::size_t s = 0; s < heads.size(); ++s) prompts.push_back({&sequences[s], heads[s]});
    const auto first = model.step(prompts);
    for (std::size_t s = 0; s < heads.size(); ++s) ASSERT_EQ(first[s], alone[s][0]) << "sequence " << s;
    for (std::size_t i = 0; i < more[0].size(); ++i) {
        std::vector<ModelCase::Rows> rows;
        for (std::size_t s = 0; s < heads.size(); ++s) rows.push_back({&sequences[s], {more[s][i]}});
        const auto together = model.step(rows);
        for (std::size_t s = 0; s < heads.size(); ++s)
            ASSERT_EQ(together[s], alone[s][i + 1]) << "sequence " << s;
    }
}

TEST_P(Equality, APromptCutAtTheGridHasTheBitsOfThePromptWhole) {
    ModelCase model(GetParam().folder);
    for (const std::size_t length : {70u, 144u, 200u, 257u}) {
        const auto tokens = random_tokens(length);
        auto whole = model.begin(0);
        const Logits expected = model.chain(whole, tokens);
        for (const std::size_t chunk : {64u, 128u, 192u}) {
            auto cut = model.begin(1);
            Logits logits;
            for (std::size_t at = 0; at < length; at += chunk) {
                const Logits part = model.chain(
                    cut, {tokens.begin() + std::ptrdiff_t(at),
                          tokens.begin() + std::ptrdiff_t(std::min<std::size_t>(at + chunk, length))});
                logits.insert(logits.end(), part.begin(), part.end());
            }
            ASSERT_EQ(logits, expected) << length << " tokens, cut every " << chunk;
        }
    }
}

TEST_P(Equality, TheNumberOfThreadsChangesNothing) {
    const auto tokens = random_tokens(90), next = random_tokens(5);
    std::vector<Logits> expected;
    for (const std::uint32_t threads : {1u, 2u, 5u}) {
        ModelCase model(GetParam().folder, {.threads = threads});
        auto sequence = model.begin(0);
        std::vector<Logits> logits{model.chain(sequence, tokens)};
        for (const Token token : next) logits.push_back(model.chain(sequence, {token}));
        if (threads == 1) expected = logits;
        ASSERT_EQ(logits, expected) << threads << " threads";
    }
}

INSTANTIATE_TEST_SUITE_P(Models, Equality,
                         testing::Values(Subject{"Dense", "tests/data/goldens/qwen3_5-dense", 512},
                                         Subject{"Experts", "tests/data/goldens/qwen3_5-moe", 512},
                                         Subject{"Mamba", "tests/data/goldens/nemotron_h-mamba", 256},
                                         Subject{"Latent", "tests/data/goldens/nemotron_h-latent", 256},
                                         Subject{"FlashNext", "tests/data/goldens/qwen4_exp", 320},
                                         Subject{"Flint", "tests/data/goldens/flint", 192},
                                         Subject{"Dory", "tests/data/goldens/dory", 192},
                                         Subject{"Tiny", "models/tiny", 8192}),
                         [](const auto& subject) { return subject.param.name; });

}  // namespace
}  // namespace kapitsa

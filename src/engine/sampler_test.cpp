// The sampler against obvious arithmetic in double, and against itself at the edges. Distributions are
// compared by chi-square at one in a thousand; the seeds are fixed, so a test that passes always passes.

#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

namespace kapitsa {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
const TokenCounts nothing;

Emitted choose(std::vector<float> logits, const Sampling& sampling, std::uint64_t place = 0,
               const TokenCounts& counts = nothing) {
    Sampler sampler(std::uint32_t(logits.size()));
    auto emitted = sampler.choose(logits, sampling, counts, place);
    EXPECT_TRUE(emitted) << emitted.error().message;
    return emitted ? *emitted : Emitted{.token = -1};
}

std::vector<float> normal_logits(std::size_t tokens, unsigned seed, float spread) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, spread);
    std::vector<float> logits(tokens);
    for (float& logit : logits) logit = normal(random);
    return logits;
}

/// The definition, by sorting.
std::vector<double> obvious(const std::vector<float>& logits, const Sampling& sampling) {
    const std::size_t tokens = logits.size();
    const double highest = *std::ranges::max_element(logits);
    std::vector<double> p(tokens);
    for (std::size_t i = 0; i < tokens; ++i)
        p[i] = std::exp((double(logits[i]) - highest) / double(sampling.temperature));
    std::vector<std::size_t> order(tokens);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, [&](auto a, auto b) { return logits[a] > logits[b]; });
    std::size_t kept = sampling.top_k > 0 ? std::min<std::size_t>(sampling.top_k, tokens) : tokens;
    double whole = 0, reached = 0;
    for (std::size_t i = 0; i < kept; ++i) whole += p[order[i]];
    std::size_t nucleus = 0;
    while (nucleus < kept && (nucleus == 0 || reached < double(sampling.top_p) * whole))
        reached += p[order[nucleus++]];
    if (sampling.top_p < 1) kept = nucleus;
    while (kept > 1 && p[order[kept - 1]] < double(sampling.min_p) * p[order[0]]) --kept;
    for (std::size_t i = kept; i < tokens; ++i) p[order[i]] = 0;
    const double sum = std::accumulate(p.begin(), p.end(), 0.0);
    for (double& x : p) x /= sum;
    return p;
}

/// Draws many tokens and compares their frequencies with the definition.
void expect_distribution(const std::vector<float>& logits, Sampling sampling, int draws = 20000) {
    sampling.seed = 11;
    const auto expected = obvious(logits, sampling);
    std::vector<int> seen(logits.size());
    Sampler sampler(std::uint32_t(logits.size()));
    for (int place = 0; place < draws; ++place) {
        auto row = logits;
        const auto emitted = sampler.choose(row, sampling, nothing, std::uint64_t(place));
        ASSERT_TRUE(emitted);
        ++seen[std::size_t(emitted->token)];
    }
    double chi_square = 0, rare = 0, rare_seen = 0;
    int cells = 0;
    const auto add = [&](double times, double expected_times) {
        chi_square += (times - expected_times) * (times - expected_times) / expected_times;
        ++cells;
    };
    for (std::size_t i = 0; i < logits.size(); ++i) {
        const double times = expected[i] * draws;
        if (expected[i] == 0) {
            EXPECT_EQ(seen[i], 0) << "token " << i << " was cut";
        } else if (times < 10) {
            rare += times;
            rare_seen += seen[i];
        } else {
            add(seen[i], times);
        }
    }
    if (rare >= 5) add(rare_seen, rare);
    // Wilson and Hilferty's approximation of the quantile for one in a thousand.
    const double freedom = std::max(1, cells - 1);
    const double limit = freedom * std::pow(1 - 2 / (9 * freedom) + 3.09 * std::sqrt(2 / (9 * freedom)), 3);
    EXPECT_LT(chi_square, limit) << cells << " cells";
}

TEST(Sampler, DrawsFromTheSoftmax) {
    for (const float temperature : {0.3f, 1.0f, 2.5f})
        expect_distribution(normal_logits(12, 1, 1.5f), {.temperature = temperature});
}

TEST(Sampler, DrawsFromTheSoftmaxOfAVocabularyOfSeveralBlocks) {
    auto logits = normal_logits(3000, 2, 0.5f);
    for (const std::size_t i : {0, 1023, 1024, 2047, 2048, 2999}) logits[i] = 7;
    expect_distribution(logits, {}, 4000);
}

TEST(Sampler, CutsAsDefined) {
    const auto logits = normal_logits(40, 3, 1.5f);
    expect_distribution(logits, {.top_k = 5});
    expect_distribution(logits, {.temperature = 1.7f, .top_p = 0.8f});
    expect_distribution(logits, {.temperature = 0.6f, .min_p = 0.1f});
    expect_distribution(logits, {.temperature = 1.2f, .top_k = 12, .top_p = 0.7f, .min_p = 0.2f});
    expect_distribution(logits, {.temperature = 1.2f, .top_p = 0.95f, .min_p = 0.05f});
}

TEST(Sampler, KeepsExactlyTheTokensOfTheDefinition) {
    for (unsigned seed = 0; seed < 60; ++seed) {
        const auto logits = normal_logits(50 + seed * 29, seed, seed % 2 ? 0.2f : 3.0f);
        Sampling sampling{.temperature = 1.5f, .top_p = float(seed % 10 + 1) / 11};
        if (seed % 3 == 0) sampling.top_k = 1 + seed * 7;
        if (seed % 4 == 0) sampling.min_p = 0.01f;
        const auto expected = obvious(logits, sampling);
        Sampler sampler(std::uint32_t(logits.size()));
        for (int place = 0; place < 50; ++place) {
            auto row = logits;
            const auto emitted = sampler.choose(row, sampling, nothing, std::uint64_t(place));
            ASSERT_TRUE(emitted);
            ASSERT_GT(expected[std::size_t(emitted->token)], 0) << "seed " << seed;
        }
    }
}

TEST(Sampler, TemperatureZeroTakesTheBestAndTheLowestNumberAmongEquals) {
    EXPECT_EQ(choose({1, 5, 5, 2}, {.temperature = 0}).token, 1);
    for (const std::size_t tokens : {1u, 7u, 8u, 9u, 1023u, 1024u, 1025u, 5000u}) {
        auto logits = normal_logits(tokens, unsigned(tokens), 1);
        const auto best = std::ranges::max_element(logits) - logits.begin();
        EXPECT_EQ(choose(logits, {.temperature = 0}).token, best);
        logits.back() = 100;
        EXPECT_EQ(choose(logits, {.temperature = 0}).token, Token(tokens - 1));
    }
}

TEST(Sampler, CutsOfEqualLogitsKeepTheLowestNumbers) {
    for (std::uint64_t place = 0; place < 50; ++place) {
        EXPECT_LT(choose(std::vector<float>(100, 1.0f), {.top_k = 3}, place).token, 3);
        EXPECT_LT(choose(std::vector<float>(100, 1.0f), {.top_p = 0.045f}, place).token, 5);
    }
}

TEST(Sampler, ExtremesAreTheBestTokenOrAll) {
    const auto logits = normal_logits(2000, 5, 1);
    const auto best = Token(std::ranges::max_element(logits) - logits.begin());
    for (std::uint64_t place = 0; place < 20; ++place) {
        EXPECT_EQ(choose(logits, {.top_k = 1}, place).token, best);
        EXPECT_EQ(choose(logits, {.top_p = 0}, place).token, best);
        EXPECT_EQ(choose(logits, {.min_p = 1}, place).token, best);
        EXPECT_EQ(choose(logits, {.temperature = 1e-6f}, place).token, best);
        EXPECT_EQ(choose(logits, {.temperature = 1e-45f}, place).token, best);
        EXPECT_EQ(choose(logits, {.temperature = 1e-45f, .top_k = 9, .top_p = 0.9f}, place).token, best);
        const auto plain = choose(logits, {}, place).token;
        EXPECT_EQ(choose(logits, {.top_k = 2000}, place).token, plain);
        EXPECT_EQ(choose(logits, {.top_k = 4000000000u}, place).token, plain);
    }
}

TEST(Sampler, ANeverStaysANever) {
    std::vector<float> logits(3000, -infinity);
    logits[2500] = -3;
    for (const Sampling& sampling : {Sampling{}, Sampling{.temperature = 0}, Sampling{.top_k = 20},
                                     Sampling{.top_p = 0.99f}, Sampling{.temperature = 1000, .min_p = 0.1f}})
        for (std::uint64_t place = 0; place < 20; ++place)
            EXPECT_EQ(choose(logits, sampling, place).token, 2500);
    const auto emitted = choose(logits, {.logprobs = true, .top_logprobs = 5});
    EXPECT_FLOAT_EQ(emitted.logprob, 0);
    EXPECT_EQ(emitted.top.size(), 1u);
}

TEST(Sampler, BrokenLogitsAreReportedAndNotSampled) {
    const float not_a_number = std::numeric_limits<float>::quiet_NaN();
    for (const std::size_t at : {0u, 5u, 1027u, 2999u})
        for (const float broken : {not_a_number, infinity})
            for (const float temperature : {0.0f, 1.0f}) {
                std::vector<float> logits(3000, 1.0f);
                logits[at] = broken;
                Sampler sampler(3000);
                const auto emitted = sampler.choose(logits, {.temperature = temperature}, nothing, 77);
                ASSERT_FALSE(emitted);
                EXPECT_EQ(emitted.error().fault, Fault::device);
                EXPECT_NE(emitted.error().message.find("77"), std::string::npos);
            }
    std::vector<float> never(10, -infinity);
    EXPECT_FALSE(Sampler(10).choose(never, {}, nothing, 0));
}

TEST(Sampler, ColumnsBeyondTheVocabularyAreNeverSeen) {
    std::vector<float> logits(2000, 0.0f);
    for (std::size_t i = 1500; i < 2000; ++i) logits[i] = infinity;
    Sampler sampler(1500);
    for (std::uint64_t place = 0; place < 100; ++place) {
        const auto emitted =
            sampler.choose(logits, {.logit_bias = {{1700, 5.0f}}, .logprobs = true}, nothing, place);
        ASSERT_TRUE(emitted);
        EXPECT_LT(emitted->token, 1500);
        EXPECT_NEAR(emitted->logprob, -std::log(1500.0), 1e-5);
    }
}

TEST(Sampler, PenaltiesAreTheHandComputedOnes) {
    TokenCounts counts;
    counts.add_prompt(0);
    counts.add_prompt(1);
    counts.add_reply(1);
    counts.add_reply(1);
    counts.add_reply(2);
    std::vector<float> logits{2, 3, -1, 0.5f};
    const Sampling sampling{.temperature = 0,
                            .presence_penalty = 0.25f,
                            .frequency_penalty = 0.5f,
                            .repetition_penalty = 2,
                            .logit_bias = {{3, -0.75f}}};
    ASSERT_TRUE(Sampler(4).choose(logits, sampling, counts, 0));
    EXPECT_FLOAT_EQ(logits[0], 1);                    // 2 / 2: only in the prompt
    EXPECT_FLOAT_EQ(logits[1], 1.5f - 1.0f - 0.25f);  // 3 / 2, twice, present
    EXPECT_FLOAT_EQ(logits[2], -2 - 0.5f - 0.25f);    // -1 * 2, once, present
    EXPECT_FLOAT_EQ(logits[3], -0.25f);               // the bias alone
}

TEST(Sampler, PresenceAndFrequencyLeaveThePromptAlone) {
    TokenCounts counts;
    counts.add_prompt(0);
    std::vector<float> logits{2, 1};
    ASSERT_TRUE(Sampler(2).choose(logits, {.presence_penalty = 2, .frequency_penalty = 2}, counts, 0));
    EXPECT_EQ(logits, (std::vector<float>{2, 1}));
}

TEST(Sampler, AHugeBiasDecidesAndBreaksNothing) {
    constexpr float huge = std::numeric_limits<float>::max();
    const auto logits = normal_logits(100, 9, 2);
    for (const float temperature : {0.0f, 1.0f, 1000.0f}) {
        EXPECT_EQ(choose(logits, {.temperature = temperature, .logit_bias = {{42, huge}}}).token, 42);
        EXPECT_EQ(choose(logits, {.temperature = temperature,
                                  .logit_bias = {{42, huge}, {42, huge}, {42, huge}, {7, -huge}}})
                      .token,
                  42);
    }
    std::vector<std::pair<Token, float>> all_but_one;
    for (Token token = 0; token < 100; ++token)
        if (token != 13) all_but_one.emplace_back(token, -huge);
    EXPECT_EQ(choose(logits, {.logit_bias = all_but_one}).token, 13);
}

TEST(Sampler, LogprobsAreBeforeTemperatureAndCutsAndAfterBias) {
    auto logits = normal_logits(1500, 4, 2);
    const Sampling sampling{
        .temperature = 0.1f, .top_k = 2, .logit_bias = {{17, 20.0f}}, .logprobs = true, .top_logprobs = 20};
    const auto emitted = choose(logits, sampling);
    logits[17] += 20;
    double whole = 0;
    for (const float logit : logits) whole += std::exp(double(logit));
    EXPECT_EQ(emitted.token, 17);
    EXPECT_NEAR(emitted.logprob, logits[17] - std::log(whole), 1e-5);
    ASSERT_EQ(emitted.top.size(), 20u);
    EXPECT_EQ(emitted.top[0].token, 17);
    std::vector<float> sorted = logits;
    std::ranges::sort(sorted, std::greater());
    for (std::size_t i = 0; i < 20; ++i) {
        EXPECT_EQ(logits[std::size_t(emitted.top[i].token)], sorted[i]);
        EXPECT_NEAR(emitted.top[i].logprob, sorted[i] - std::log(whole), 1e-5);
    }
}

TEST(Sampler, ASeedRepeatsItselfAndAnotherDoesNot) {
    const auto logits = normal_logits(500, 6, 1);
    const auto reply = [&](std::uint64_t seed) {
        std::vector<Token> tokens;
        for (std::uint64_t place = 100; place < 140; ++place)
            tokens.push_back(choose(logits, {.seed = seed}, place).token);
        return tokens;
    };
    EXPECT_EQ(reply(1), reply(1));
    EXPECT_NE(reply(1), reply(2));
    EXPECT_NE(reply(1), reply(1ull << 40 | 1));
}

TEST(Sampler, UsedScratchChangesNothing) {
    Sampler used(2000);
    std::mt19937 random(1);
    for (std::uint64_t place = 0; place < 300; ++place) {
        const auto logits = normal_logits(2000, unsigned(place), 2);
        Sampling sampling{.temperature = float(random() % 3), .top_k = std::uint32_t(random() % 3 * 10)};
        sampling.top_p = random() % 2 ? 1.0f : 0.9f;
        sampling.min_p = random() % 2 ? 0.0f : 0.05f;
        sampling.logprobs = random() % 2;
        sampling.top_logprobs = std::uint32_t(random() % 5);
        auto row = logits;
        const auto emitted = used.choose(row, sampling, nothing, place);
        ASSERT_TRUE(emitted);
        EXPECT_EQ(emitted->token, choose(logits, sampling, place).token);
    }
}

TEST(CheckSampling, RefusesWhatIsNotANumberInItsRangeAndNamesIt) {
    const float not_a_number = std::numeric_limits<float>::quiet_NaN();
    const auto refused = [](const Sampling& sampling) {
        const auto checked = check_sampling(sampling, 100);
        return checked ? std::string() : checked.error().message;
    };
    EXPECT_EQ(refused({}), "");
    EXPECT_NE(refused({.temperature = not_a_number}).find("temperature"), std::string::npos);
    EXPECT_NE(refused({.temperature = -1}).find("temperature"), std::string::npos);
    EXPECT_NE(refused({.temperature = infinity}).find("temperature"), std::string::npos);
    EXPECT_NE(refused({.top_p = 1.5f}).find("top_p"), std::string::npos);
    EXPECT_NE(refused({.min_p = -0.5f}).find("min_p"), std::string::npos);
    EXPECT_NE(refused({.presence_penalty = infinity}).find("presence"), std::string::npos);
    EXPECT_NE(refused({.frequency_penalty = not_a_number}).find("frequency"), std::string::npos);
    EXPECT_NE(refused({.repetition_penalty = 0}).find("repetition"), std::string::npos);
    EXPECT_NE(refused({.logit_bias = {{100, 1.0f}}}).find("token 100"), std::string::npos);
    EXPECT_NE(refused({.logit_bias = {{-1, 1.0f}}}).find("token -1"), std::string::npos);
    EXPECT_NE(refused({.logit_bias = {{1, infinity}}}).find("token 1"), std::string::npos);
    EXPECT_NE(refused({.top_logprobs = 21}).find("21"), std::string::npos);
}

}  // namespace
}  // namespace kapitsa

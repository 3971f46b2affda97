#include "check/divergence.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace kapitsa {
namespace {

std::vector<float> random_logits(std::size_t count, unsigned seed, float spread) {
    std::mt19937 random(seed);
    std::normal_distribution<float> logit(0, spread);
    std::vector<float> logits(count);
    for (float& one : logits) one = logit(random);
    return logits;
}

/// As the textbook has it, in the widest type there is.
long double textbook(const std::vector<float>& p, const std::vector<float>& q) {
    const auto log_sum = [](const std::vector<float>& logits) {
        long double sum = 0;
        for (const float logit : logits) sum += std::exp(static_cast<long double>(logit));
        return std::log(sum);
    };
    const long double of_p = log_sum(p), of_q = log_sum(q);
    long double kl = 0;
    for (std::size_t i = 0; i < p.size(); ++i)
        kl += std::exp(p[i] - of_p) * ((p[i] - of_p) - (static_cast<long double>(q[i]) - of_q));
    return kl;
}

TEST(Divergence, IsTheTextbooksKl) {
    for (const float spread : {0.1f, 1.0f, 5.0f, 60.0f}) {
        const auto p = random_logits(1000, 1, spread), q = random_logits(1000, 2, spread);
        const double expected = double(textbook(p, q));
        EXPECT_NEAR(divergence(p, q).kl, expected, 1e-11 * expected) << spread;
    }
}

TEST(Divergence, KeepsItsDigitsWhereTheTextbooksSumIsRoundingAlone) {
    // Two logits of one, of which one moves by h: exp(h) and 1 against 1 and 1. KL = h^2 / 8 - ...
    for (const float h : {1e-2f, 1e-4f, 1e-6f}) {
        const std::vector<float> p{0, 0}, q{h, 0};
        EXPECT_NEAR(divergence(p, q).kl, double(h) * h / 8, 1e-3 * h * h) << h;
        EXPECT_GT(divergence(p, q).kl, 0) << h;
    }
}

TEST(Divergence, OfTheSameDistributionIsNothing) {
    const auto p = random_logits(5000, 3, 4);
    EXPECT_EQ(divergence(p, p).kl, 0);
    EXPECT_TRUE(divergence(p, p).same_top);
    auto raised = p;
    for (float& logit : raised) logit += 0.5f;  // the same distribution by other logits
    EXPECT_LT(divergence(p, raised).kl, 1e-13);
    EXPECT_NEAR(divergence(p, raised).logit, 0.5, 1e-6);
}

TEST(Divergence, OfLogitsThatAreFarApartIsFinite) {
    const std::vector<float> p{0, 1000, -3e38f}, q{1000, 0, 3e38f};
    EXPECT_NEAR(divergence({p.data(), 2}, {q.data(), 2}).kl, 1000, 1e-9);
    EXPECT_FALSE(divergence(p, q).same_top);
    EXPECT_TRUE(std::isfinite(divergence(p, q).kl));
}

TEST(Divergence, SpreadsKeepMeanAndMost) {
    Spread spread, more;
    spread.add({.kl = 1, .same_top = true, .logit = 0.5});
    more.add({.kl = 4, .same_top = false, .logit = 0.25});
    spread.add(more);
    EXPECT_EQ(spread.kl_mean(), 2.5);
    EXPECT_EQ(spread.kl_max, 4);
    EXPECT_EQ(spread.agreement(), 0.5);
    EXPECT_EQ(spread.logit_max, 0.5);
    EXPECT_EQ(Spread().agreement(), 1);
}

TEST(Divergence, SurpriseIsTheLogOfOneInP) {
    const std::vector<float> even(8, 3.0f);
    EXPECT_NEAR(surprise(even, 5), std::log(8.0), 1e-14);
    EXPECT_NEAR(surprise(std::vector<float>{1000, 0}, 1), 1000, 1e-9);
}

TEST(Divergence, LogitsThatAreNoNumbersAreSeen) {
    EXPECT_TRUE(all_finite(std::vector<float>{0, -3e38f}));
    EXPECT_FALSE(all_finite(std::vector<float>{0, std::numeric_limits<float>::quiet_NaN()}));
    EXPECT_FALSE(all_finite(std::vector<float>{-std::numeric_limits<float>::infinity(), 0}));
}

}  // namespace
}  // namespace kapitsa

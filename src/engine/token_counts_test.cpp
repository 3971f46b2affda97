#include "engine/token_counts.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace kapitsa {
namespace {

TEST(TokenCounts, AgreesWithAMapWhateverTheTokens) {
    std::mt19937 random(3);
    TokenCounts counts;
    std::map<Token, std::uint32_t> expected;
    for (int i = 0; i < 20000; ++i) {
        // Neighbours, multiples of a power of two, and anything: what a weak hash would put in one place.
        const Token token = i % 3 == 0   ? Token(random() % 300)
                            : i % 3 == 1 ? Token(random() % 300) * 1024
                                         : Token(random() % 250000);
        if (i % 2) {
            counts.add_reply(token);
            ++expected[token];
        } else {
            counts.add_prompt(token);
            expected[token];
        }
    }
    ASSERT_EQ(counts.entries().size(), expected.size());
    for (const auto& [token, in_reply] : counts.entries()) EXPECT_EQ(expected.at(token), in_reply);
}

TEST(TokenCounts, StartsEmpty) { EXPECT_TRUE(TokenCounts().entries().empty()); }

}  // namespace
}  // namespace kapitsa

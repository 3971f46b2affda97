#include "engine/random.h"

#include <gtest/gtest.h>

namespace kapitsa {
namespace {

using Block = std::array<std::uint32_t, 4>;

// The known answers that the authors' library (Random123) is tested with.
TEST(Philox, GivesItsAuthorsKnownAnswers) {
    EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
    EXPECT_EQ(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
              (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
    EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
              (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Uniform, FillsTheUnitIntervalEvenly) {
    constexpr int draws = 100000;
    int tenths[10] = {};
    for (int i = 0; i < draws; ++i) {
        const double x = uniform(7, std::uint64_t(i));
        ASSERT_GE(x, 0);
        ASSERT_LT(x, 1);
        ++tenths[int(x * 10)];
    }
    double chi_square = 0;
    for (const int seen : tenths)
        chi_square += (seen - draws / 10.0) * (seen - draws / 10.0) / (draws / 10.0);
    EXPECT_LT(chi_square, 27.9);  // 9 degrees of freedom, one in a thousand
}

TEST(Uniform, DependsOnEveryBitOfSeedAndPlace) {
    const double first = uniform(0, 0);
    for (int bit = 0; bit < 64; ++bit) {
        EXPECT_NE(uniform(1ull << bit, 0), first);
        EXPECT_NE(uniform(0, 1ull << bit), first);
    }
}

}  // namespace
}  // namespace kapitsa

#include "check/reading.h"

#include <gtest/gtest.h>

#include <memory>

#include "formats/checkpoint.h"
#include "model/load.h"

namespace kapitsa {
namespace {

const Checkpoint& built_in() {
    static const Checkpoint checkpoint = *open_checkpoint(KAPITSA_SOURCE_DIR "/models/tiny");
    return checkpoint;
}

std::unique_ptr<Runner> runner_on(const std::string& backend, std::uint32_t sequences) {
    auto runner = load_runner(built_in(), {.context = reading_window,
                                           .sequences = sequences,
                                           .threads = 2,
                                           .backend = backend,
                                           .rows_per_step = reading_rows,
                                           .draft_rows = 1,
                                           .wanted_rows = reading_rows});
    return runner ? std::move(*runner) : nullptr;
}

std::vector<TextTokens> texts(std::size_t tokens) {
    TextTokens text{.name = "counted", .tokens = {}};
    for (std::size_t i = 0; i < tokens; ++i) text.tokens.push_back(static_cast<Token>(i * 37 % 8000));
    return {text};
}

constexpr auto on = [](std::uint64_t, std::uint64_t) { return true; };

TEST(Reading, AModelBesideItselfIsNoFurtherThanItsRows) {
    const auto runner = runner_on("cpu", 2);
    ASSERT_NE(runner, nullptr);
    const auto readings =
        read_texts(texts(100),
                   std::vector<Reader>{{runner.get(), 0, reading_rows}, {runner.get(), 1, reading_rows}}, on);
    ASSERT_TRUE(readings) << readings.error().message;
    EXPECT_EQ(readings->front().tokens, 99u);
    EXPECT_EQ(readings->front().apart.front().logit_max, 0);
    EXPECT_EQ(readings->front().perplexity(0), readings->front().perplexity(1));
}

TEST(Reading, TheFloorOfTheBuiltInModelIsSmallAndNotNothing) {
    const auto runner = runner_on("cpu", 2), wide = runner_on("cpu-f64", 1);
    ASSERT_NE(runner, nullptr);
    ASSERT_NE(wide, nullptr);
    const auto readings =
        read_texts(texts(100),
                   std::vector<Reader>{
                       {runner.get(), 0, reading_rows}, {wide.get(), 0, reading_rows}, {runner.get(), 1, 16}},
                   on);
    ASSERT_TRUE(readings) << readings.error().message;
    for (const Spread& apart : readings->front().apart) {
        EXPECT_GT(apart.kl_mean(), 1e-14);
        EXPECT_LT(apart.kl_mean(), 1e-10);
        EXPECT_EQ(apart.same_top, apart.positions);
    }
}

TEST(Reading, WindowsBeginAnew) {
    const auto runner = runner_on("cpu", 1);
    ASSERT_NE(runner, nullptr);
    const std::vector<Reader> readers{{runner.get(), 0, reading_rows}};
    const auto once = texts(reading_window);
    auto twice = once;
    twice.front().tokens.insert(twice.front().tokens.end(), once.front().tokens.begin(),
                                once.front().tokens.end());
    const auto one = read_texts(once, readers, on), both = read_texts(twice, readers, on);
    ASSERT_TRUE(one && both);
    EXPECT_EQ(both->front().tokens, 2 * one->front().tokens);
    EXPECT_NEAR(both->front().surprise[0], 2 * one->front().surprise[0], 1e-6);
}

TEST(Reading, StopsWhenItIsTold) {
    const auto runner = runner_on("cpu", 1);
    ASSERT_NE(runner, nullptr);
    const auto stopped = read_texts(texts(500), std::vector<Reader>{{runner.get(), 0, reading_rows}},
                                    [](std::uint64_t done, std::uint64_t) { return done < 128; });
    ASSERT_FALSE(stopped);
    EXPECT_EQ(stopped.error().fault, Fault::cancelled);
}

}  // namespace
}  // namespace kapitsa

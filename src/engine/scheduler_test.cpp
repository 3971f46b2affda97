#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace kapitsa {
namespace {

std::unique_ptr<Sequence> sequence(std::uint64_t id, std::uint32_t prompt_tokens,
                                   std::uint32_t computed = 0) {
    Submit request{.id = id, .prompt = std::vector<Token>(prompt_tokens, 1), .max_tokens = 100};
    auto made = std::make_unique<Sequence>(std::move(request));
    made->computed = computed;
    return made;
}

/// One that has its prompt computed and its last token still to be.
std::unique_ptr<Sequence> reply(std::uint64_t id) {
    auto made = sequence(id, 10, 10);
    made->tokens.push_back(1);
    return made;
}

void admit_all(Scheduler& scheduler) {
    while (scheduler.newcomer()) scheduler.admit();
}

std::map<std::uint64_t, std::uint32_t> plan(Scheduler& scheduler) {
    std::map<std::uint64_t, std::uint32_t> rows;
    for (const Share& share : scheduler.plan()) rows[share.sequence->id] = share.rows;
    return rows;
}

using Rows = std::map<std::uint64_t, std::uint32_t>;

TEST(Scheduler, RepliesAreServedFirstAndWhole) {
    Scheduler scheduler({.rows_per_step = 66, .sequences = 4, .chunk = 256});
    scheduler.add(sequence(1, 1000));
    scheduler.add(reply(2));
    scheduler.add(reply(3));
    admit_all(scheduler);
    const auto shares = scheduler.plan();
    ASSERT_EQ(shares.size(), 3u);
    EXPECT_EQ(shares[0].sequence->id, 2u);
    EXPECT_EQ(shares[1].sequence->id, 3u);
    EXPECT_EQ(shares[2].rows, 64u);
}

TEST(Scheduler, ALonePromptGetsTheWholeChunk) {
    Scheduler scheduler({.rows_per_step = 512, .sequences = 4, .chunk = 256});
    scheduler.add(sequence(1, 1000));
    admit_all(scheduler);
    EXPECT_EQ(plan(scheduler), (Rows{{1, 256}}));
}

TEST(Scheduler, AShortPromptTakesWhatItNeedsAndLeavesTheRest) {
    Scheduler scheduler({.rows_per_step = 512, .sequences = 4, .chunk = 256});
    scheduler.add(sequence(1, 1000));
    scheduler.add(sequence(2, 20));
    admit_all(scheduler);
    EXPECT_EQ(plan(scheduler), (Rows{{1, 192}, {2, 20}}));
}

TEST(Scheduler, ChunksEndOnTheGridFromWhereverTheyBegin) {
    Scheduler scheduler({.rows_per_step = 512, .sequences = 4, .chunk = 256});
    scheduler.add(sequence(1, 1000, 48));
    admit_all(scheduler);
    EXPECT_EQ(plan(scheduler), (Rows{{1, 208}}));
}

TEST(Scheduler, FewRowsEndOnAPageAndFewerStillMoveOn) {
    Scheduler pages({.rows_per_step = 40, .sequences = 1, .chunk = 40});
    pages.add(sequence(1, 1000));
    admit_all(pages);
    EXPECT_EQ(plan(pages), (Rows{{1, 32}}));
    Scheduler rows({.rows_per_step = 5, .sequences = 1, .chunk = 256});
    rows.add(sequence(1, 1000));
    admit_all(rows);
    EXPECT_EQ(plan(rows), (Rows{{1, 5}}));
}

TEST(Scheduler, MorePromptsThanGridCellsTakeTurns) {
    Scheduler scheduler({.rows_per_step = 128, .sequences = 5, .chunk = 128});
    for (std::uint64_t id = 0; id < 5; ++id) scheduler.add(sequence(id, 100000));
    admit_all(scheduler);
    Rows total;
    for (int step = 0; step < 50; ++step)
        for (const Share& share : scheduler.plan()) {
            EXPECT_EQ(share.rows, 64u);
            share.sequence->computed += share.rows;
            total[share.sequence->id] += share.rows;
        }
    for (const auto& [id, rows] : total) EXPECT_EQ(rows, 50 * 128 / 5);
    EXPECT_EQ(total.size(), 5u);
}

TEST(Scheduler, AStreamOfNewcomersDoesNotStarveAnOldPrompt) {
    Scheduler scheduler({.rows_per_step = 64, .sequences = 3, .chunk = 64});
    scheduler.add(sequence(0, 6400));
    admit_all(scheduler);
    std::uint32_t old_rows = 0;
    for (std::uint64_t step = 0; step < 60; ++step) {
        scheduler.add(sequence(1000 + step, 10));
        admit_all(scheduler);
        std::vector<const Sequence*> done;
        for (const Share& share : scheduler.plan()) {
            share.sequence->computed += share.rows;
            if (share.sequence->id == 0) old_rows += share.rows;
            if (share.sequence->lacking() == 0) done.push_back(share.sequence);
        }
        for (const Sequence* sequence : done) scheduler.remove(*sequence);
    }
    EXPECT_GE(old_rows, 64u * 60 / 3);
}

TEST(Scheduler, NewcomersAreAdmittedInTheirOrderWhilePlacesAreFree) {
    Scheduler scheduler({.rows_per_step = 128, .sequences = 2, .chunk = 128});
    for (std::uint64_t id = 1; id <= 3; ++id) scheduler.add(sequence(id, 10));
    EXPECT_EQ(scheduler.newcomer()->id, 1u);
    scheduler.admit();
    scheduler.admit();
    EXPECT_EQ(scheduler.newcomer(), nullptr);
    EXPECT_EQ(scheduler.remove(*scheduler.find(1))->id, 1u);
    EXPECT_EQ(scheduler.newcomer()->id, 3u);
    EXPECT_EQ(scheduler.remove(*scheduler.find(3))->id, 3u);
    EXPECT_EQ(scheduler.newcomer(), nullptr);
    EXPECT_EQ(scheduler.find(3), nullptr);
    EXPECT_FALSE(scheduler.empty());
}

TEST(Scheduler, EveryPlanKeepsItsPromisesWhateverRuns) {
    std::mt19937 random(5);
    for (int round = 0; round < 300; ++round) {
        const auto sequences = std::uint32_t(1 + random() % 12);
        const auto rows = std::uint32_t(sequences + random() % 400),
                   chunk = std::uint32_t(1 + random() % 300);
        Scheduler scheduler({.rows_per_step = rows, .sequences = sequences, .chunk = chunk});
        for (std::uint64_t id = 0; id < 15; ++id)
            scheduler.add(random() % 2 ? reply(id) : sequence(id, std::uint32_t(1 + random() % 2000)));
        admit_all(scheduler);
        for (int step = 0; step < 20; ++step) {
            std::uint32_t total = 0, prompt_rows = 0, replies = 0, expected_replies = 0;
            for (const auto& running : scheduler.running()) expected_replies += running->replying();
            const auto shares = scheduler.plan();
            ASSERT_FALSE(shares.empty());
            for (const Share& share : shares) {
                ASSERT_GT(share.rows, 0u);
                ASSERT_LE(share.rows, share.sequence->lacking());
                total += share.rows;
                (share.sequence->replying() ? replies : prompt_rows) += share.rows;
            }
            ASSERT_EQ(replies, expected_replies);
            ASSERT_LE(total, rows);
            ASSERT_LE(prompt_rows, chunk);
            ASSERT_TRUE(prompt_rows > 0 || expected_replies == scheduler.running().size());
            for (const Share& share : shares) {
                share.sequence->computed += share.rows;
                if (share.sequence->lacking() == 0) share.sequence->tokens.push_back(1);
            }
        }
    }
}

TEST(SchedulerDeathTest, RefusesLimitsThatCouldHoldUpAReply) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_DEATH(Scheduler({.rows_per_step = 7, .sequences = 4, .reply_rows = 2, .chunk = 64}),
                 "rows_per_step");
}

}  // namespace
}  // namespace kapitsa

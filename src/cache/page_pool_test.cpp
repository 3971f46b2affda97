#include "cache/page_pool.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace kapitsa {
namespace {

TEST(PagePool, PromisesNoMoreThanItHas) {
    PagePool pool(4);
    EXPECT_TRUE(pool.reserve(3));
    EXPECT_FALSE(pool.reserve(2));
    EXPECT_EQ(pool.available(), 1u);
    EXPECT_TRUE(pool.reserve(1));
    pool.unreserve(4);
    EXPECT_EQ(pool.available(), 4u);
}

TEST(PagePool, ATakenPageUsesUpAPromiseAndNotMore) {
    PagePool pool(2);
    ASSERT_TRUE(pool.reserve(1));
    const Page page = pool.take();
    EXPECT_EQ(pool.references(page), 1u);
    EXPECT_EQ(pool.reserved(), 0u);
    EXPECT_EQ(pool.available(), 1u);
}

TEST(PagePool, APageIsFreeWhenItsLastHolderLetsGo) {
    PagePool pool(1);
    ASSERT_TRUE(pool.reserve(1));
    const Page page = pool.take();
    pool.retain(page);
    pool.release(page);
    EXPECT_EQ(pool.free(), 0u);
    pool.release(page);
    EXPECT_EQ(pool.free(), 1u);
}

TEST(PagePoolDeathTest, BrokenCountsAreBugs) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    PagePool pool(1);
    EXPECT_DEATH(pool.take(), "reserved_ > 0");
    EXPECT_DEATH(pool.release(0), "references_");
    EXPECT_DEATH(pool.retain(0), "references_");
    EXPECT_DEATH(pool.release(1), "page < pages");
    EXPECT_DEATH(pool.unreserve(1), "pages <= reserved_");
}

TEST(PageTable, GrowsAPageAtATimeWithinItsReservation) {
    PagePool pool(8);
    auto table = PageTable::reserve(pool, 3 * page_tokens + 1);
    ASSERT_TRUE(table);
    EXPECT_EQ(table->promised(), 4u);
    EXPECT_EQ(pool.available(), 4u);
    table->grow(1);
    EXPECT_EQ(table->pages().size(), 1u);
    table->grow(page_tokens);
    EXPECT_EQ(table->pages().size(), 1u);
    table->grow(page_tokens + 1);
    EXPECT_EQ(table->pages().size(), 2u);
    table->grow(3);  // a table never shrinks
    EXPECT_EQ(table->pages().size(), 2u);
    EXPECT_EQ(pool.available(), 4u);
    EXPECT_EQ(pool.free(), 6u);
}

TEST(PageTable, ReturnsItsPagesAndItsPromisesWhenItDies) {
    PagePool pool(4);
    {
        auto table = PageTable::reserve(pool, 4 * page_tokens);
        ASSERT_TRUE(table);
        table->grow(2 * page_tokens);
        EXPECT_FALSE(PageTable::reserve(pool, 1));
        PageTable moved = std::move(*table);
        EXPECT_EQ(moved.pages().size(), 2u);
    }
    EXPECT_EQ(pool.available(), 4u);
}

TEST(PageTable, SharedPagesOutliveTheirFirstHolder) {
    PagePool pool(4);
    auto first = PageTable::reserve(pool, 2 * page_tokens);
    ASSERT_TRUE(first);
    first->grow(2 * page_tokens);
    const std::vector<Page> pages(first->pages().begin(), first->pages().end());

    auto second = PageTable::reserve(pool, 3 * page_tokens, pages);
    ASSERT_TRUE(second);
    EXPECT_EQ(second->promised(), 1u);
    first.reset();
    EXPECT_EQ(pool.references(pages[0]), 1u);
    second->grow(3 * page_tokens);
    EXPECT_EQ(second->pages()[0], pages[0]);
    EXPECT_EQ(pool.free(), 1u);
}

TEST(PageTable, NoTwoTablesHoldOnePageWhateverTheirHistory) {
    PagePool pool(50);
    std::mt19937 random(7);
    std::vector<std::pair<PageTable, std::uint32_t>> tables;  // with the tokens each may hold
    for (int round = 0; round < 5000; ++round) {
        if (random() % 3 == 0) {
            const auto tokens = std::uint32_t(1 + random() % 200);
            const bool fits = pages_for(tokens) <= pool.available();
            auto table = PageTable::reserve(pool, tokens);
            ASSERT_EQ(table.has_value(), fits);
            if (table) tables.emplace_back(std::move(*table), tokens);
        } else if (!tables.empty() && random() % 2) {
            auto& [table, tokens] = tables[random() % tables.size()];
            table.grow(std::uint32_t(1 + random() % tokens));
        } else if (!tables.empty()) {
            std::swap(tables[random() % tables.size()], tables.back());
            tables.pop_back();
        }
        std::set<Page> seen;
        std::size_t held = 0, promised = 0;
        for (const auto& [table, tokens] : tables) {
            seen.insert(table.pages().begin(), table.pages().end());
            held += table.pages().size();
            promised += table.promised();
        }
        ASSERT_EQ(seen.size(), held);
        ASSERT_EQ(pool.free(), 50 - held);
        ASSERT_EQ(pool.reserved(), promised);
    }
}

}  // namespace
}  // namespace kapitsa

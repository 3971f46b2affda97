#include "backend/cpu/pool.h"

#include <gtest/gtest.h>
#include <thread>

namespace kapitsa::cpu {
namespace {

TEST(Pool, EveryWorkerRunsTheBodyOnceARunThoughTheyOutnumberTheCores) {
    constexpr std::uint32_t workers = 9, runs = 200;
    Pool pool(workers);
    std::vector<std::atomic<std::uint32_t>> times(workers);
    for (std::uint32_t run = 1; run <= runs; ++run) {
        pool.run([&](std::uint32_t worker) { times[worker].fetch_add(1); });
        for (const auto& time : times) ASSERT_EQ(time.load(), run);
    }
}

TEST(Pool, WaitsForAValueThatComesLongAfterItWentToSleep) {
    std::atomic<std::uint32_t> value{0};
    std::thread other([&] {
        for (std::uint32_t next = 1; next <= 3; ++next) {
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
            value.store(next);
            value.notify_all();
        }
    });
    wait_until(value, 3);
    EXPECT_EQ(value.load(), 3u);
    other.join();
}

}  // namespace
}  // namespace kapitsa::cpu

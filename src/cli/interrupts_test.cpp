#include "cli/interrupts.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <thread>

namespace kapitsa {
namespace {

TEST(Interrupts, EndTheWaitAndAreRememberedUntilForgotten) {
    ASSERT_TRUE(Interrupts::watch());
    Interrupts::forget();
    std::jthread other([] { ::kill(::getpid(), SIGINT); });
    while (!Interrupts::came()) Interrupts::wait();
    Interrupts::forget();
    EXPECT_FALSE(Interrupts::came());
    std::signal(SIGINT, SIG_DFL);
}

TEST(Interrupts, ARingIsHeardByWhoWaitsLater) {
    ASSERT_TRUE(Interrupts::watch());
    Interrupts::forget();
    for (int i = 0; i < 100'000; ++i) Interrupts::ring();  // more than a pipe holds: nobody must hang
    Interrupts::wait();
    EXPECT_FALSE(Interrupts::came());
    std::signal(SIGINT, SIG_DFL);
}

}  // namespace
}  // namespace kapitsa

#include "engine/channel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace kapitsa {
namespace {

TEST(Channel, RefusesWhatIsBeyondItsCapacity) {
    Channel<int> channel(2);
    EXPECT_TRUE(channel.send(1));
    EXPECT_TRUE(channel.send(2));
    EXPECT_FALSE(channel.send(3));
    EXPECT_EQ(channel.poll(), 1);
    EXPECT_TRUE(channel.send(4));
    EXPECT_EQ(channel.poll(), 2);
    EXPECT_EQ(channel.poll(), 4);
    EXPECT_EQ(channel.poll(), std::nullopt);
}

TEST(Channel, WhatWasSentBeforeItClosedCanBeReceived) {
    Channel<int> channel(2);
    ASSERT_TRUE(channel.send(1));
    channel.close();
    EXPECT_TRUE(channel.closed());
    EXPECT_FALSE(channel.send(2));
    EXPECT_EQ(channel.take(), 1);
    EXPECT_EQ(channel.take(), std::nullopt);
}

TEST(Channel, WakesItsReceiverForEachValueAndForTheEnd) {
    int woken = 0;
    Channel<int> channel(1, [&] { ++woken; });
    ASSERT_TRUE(channel.send(1));
    EXPECT_FALSE(channel.send(2));
    EXPECT_EQ(woken, 1);
    channel.close();
    EXPECT_EQ(woken, 2);
}

TEST(Channel, LosesNothingBetweenManySendersAndOneReceiver) {
    constexpr int senders = 4, each = 2000;
    Channel<int> channel(16);
    std::vector<std::thread> threads;
    for (int sender = 0; sender < senders; ++sender)
        threads.emplace_back([&channel, sender] {
            for (int i = 0; i < each; ++i)
                while (!channel.send(sender * each + i)) std::this_thread::yield();
        });
    std::vector<int> next(senders);  // the values of one sender come in their order
    for (int received = 0; received < senders * each; ++received) {
        const int value = channel.take().value();
        ASSERT_EQ(value % each, next[std::size_t(value / each)]++);
    }
    for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace kapitsa

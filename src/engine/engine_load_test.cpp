// The engine with much to do at once. What a request is told must not depend on what else runs, on how its
// prompt was cut, nor on who goes away.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <set>
#include <thread>

#include "engine/engine_help_test.h"

namespace kapitsa {
namespace {

using namespace std::chrono_literals;

/// Of its own kind each: lengths, sampling, stop tokens.
Submit random_request(std::uint64_t id, std::mt19937& random, std::uint32_t prompt_tokens_max) {
    Submit made = request(id, 1 + random() % prompt_tokens_max, std::uint32_t(1 + random() % 60));
    made.sampling.temperature = float(random() % 3) / 2;
    if (random() % 3 == 0) made.sampling.top_k = 5;
    if (random() % 3 == 0) made.sampling.top_p = 0.8f;
    if (random() % 3 == 0) made.sampling.repetition_penalty = 1.2f;
    if (random() % 3 == 0) made.sampling.frequency_penalty = 0.5f;
    if (random() % 2 == 0) made.stop_tokens = {Token(random() % 64), Token(random() % 64)};
    return made;
}

/// Many requests at once, of which some are cancelled and some are left by their readers; those that end by
/// themselves must have said what they say alone.
void expect_batching_changes_nothing(const std::shared_ptr<Toy>& toy, const EngineOptions& options,
                                     std::uint32_t prompt_tokens_max, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<Submit> requests;
    for (std::uint64_t id = 0; id < 60; ++id) {
        requests.push_back(random_request(id, random, prompt_tokens_max));
        requests.back().max_tokens =
            std::min(requests.back().max_tokens, toy->info.pages * page_tokens - prompt_tokens_max);
    }
    const auto engine = start(toy, options);
    std::size_t refused = 0;
    std::set<std::uint64_t> left;  // by their readers
    for (const Submit& original : requests) {
        for (;;) {
            const Status submitted = engine->submit(original);
            if (submitted) break;
            ASSERT_EQ(submitted.error().fault, Fault::out_of_memory);
            ++refused;
            std::this_thread::sleep_for(200us);
        }
        if (random() % 4 == 0) engine->cancel({.id = random() % (original.id + 1)});
        if (random() % 8 == 0) {
            const std::uint64_t leaver = random() % (original.id + 1);
            requests[leaver].outbox->close();
            left.insert(leaver);
        }
    }
    std::size_t whole = 0;
    for (const Submit& original : requests) {
        if (left.contains(original.id)) continue;
        const Answer answer = read_all(*original.outbox);
        ASSERT_TRUE(answer.finished);
        const Answer expected = alone(original);
        if (answer.finished->reason == Finished::Reason::cancelled) {
            ASSERT_LE(answer.tokens.size(), expected.tokens.size());
            EXPECT_TRUE(
                std::ranges::equal(answer.tokens, std::span(expected.tokens).first(answer.tokens.size())));
        } else {
            EXPECT_EQ(answer.tokens, expected.tokens) << "request " << original.id;
            EXPECT_EQ(answer.finished->reason, expected.finished->reason);
            ++whole;
        }
    }
    EXPECT_GT(whole, 10u);
    EXPECT_TRUE(refused > 0 || options.queue >= 3);
}

TEST(Engine, BatchingChangesNothing) {
    for (unsigned seed = 0; seed < 3; ++seed)
        expect_batching_changes_nothing(std::make_shared<Toy>(), {.queue = 64}, 700, seed);
}

TEST(Engine, NeitherDoesATinyQueueOverATinyPool) {
    for (unsigned seed = 10; seed < 13; ++seed) {
        const auto toy = std::make_shared<Toy>();
        toy->info.pages = 14;  // 224 tokens: two or three requests at a time
        toy->info.rows_per_step = 50;
        expect_batching_changes_nothing(toy, {.queue = 1, .prefill_chunk = 40}, 150, seed);
    }
}

TEST(Engine, NorDoTinySteps) {
    const auto toy = std::make_shared<Toy>();
    toy->info.sequences = 3;
    toy->info.rows_per_step = 3;
    expect_batching_changes_nothing(toy, {.queue = 64, .prefill_chunk = 2}, 60, 20);
}

TEST(Engine, AReplyMovesOnAtEveryStepWhileALongPromptIsComputed) {
    const auto toy = std::make_shared<Toy>();
    toy->info.context = 16384;
    Gate gate;
    gate.guard(*toy);
    auto engine = start(toy);
    Submit talker = request(1, 10, 200);
    const auto told = talker.outbox;
    ASSERT_TRUE(engine->submit(std::move(talker)));
    gate.await();
    Submit reader = request(2, 10000, 1);
    const auto read = reader.outbox;
    ASSERT_TRUE(engine->submit(std::move(reader)));
    gate.open();
    EXPECT_EQ(read_all(*told).tokens.size(), 200u);
    EXPECT_EQ(read_all(*read).tokens.size(), 1u);
    engine.reset();
    // Slot 0 is the talker's, slot 1 the reader's.
    std::size_t together = 0;
    for (const auto& step : toy->steps)
        for (const auto& [slot, rows] : step)
            if (slot == 1) {
                ASSERT_EQ(step.front(), (std::pair{0u, 1u})) << "a step of the long prompt without the reply";
                ++together;
            }
    EXPECT_EQ(together, (10000 + 255) / 256);
}

TEST(Engine, AShortPromptDoesNotStandBehindALongOne) {
    const auto toy = std::make_shared<Toy>();
    toy->info.context = 16384;
    Gate gate;
    gate.guard(*toy);
    auto engine = start(toy);
    Submit large = request(1, 10000, 1), small = request(2, 50, 1);
    const auto large_outbox = large.outbox, small_outbox = small.outbox;
    ASSERT_TRUE(engine->submit(std::move(large)));
    EXPECT_EQ(gate.await(), 256);
    ASSERT_TRUE(engine->submit(std::move(small)));
    gate.let_one_pass();
    EXPECT_EQ(gate.await(), 192 + 50);
    gate.let_one_pass();
    EXPECT_EQ(read_all(*small_outbox).tokens.size(), 1u);
    EXPECT_EQ(engine->counters().running, 1u);
    gate.open();
    read_all(*large_outbox);
}

TEST(Engine, ManyThreadsMayAskAtOnce) {
    const auto engine = start(std::make_shared<Toy>(), {.queue = 8});
    std::vector<std::thread> threads;
    for (std::uint64_t thread = 0; thread < 4; ++thread)
        threads.emplace_back([&engine, thread] {
            std::mt19937 random{unsigned(thread)};
            for (std::uint64_t i = 0; i < 25; ++i) {
                const std::uint64_t id = thread * 1000 + i;
                Submit submit = random_request(id, random, 200);
                const auto outbox = submit.outbox;
                while (!engine->submit(submit)) std::this_thread::yield();
                if (i % 3 == 0) engine->cancel({.id = id});
                EXPECT_LE(engine->counters().running, 4u);
                EXPECT_TRUE(read_all(*outbox).finished);
            }
        });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(engine->counters().requests, 100u);
    EXPECT_EQ(engine->counters().running, 0u);
}

}  // namespace
}  // namespace kapitsa

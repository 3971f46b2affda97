// The engine over the toy model. What a request is told must not depend on what else runs, on how its prompt
// was cut, nor on who goes away; and whatever happens, each outbox ends.

#include "engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <thread>

#include "engine/toy_runner_test.h"

namespace kapitsa {
namespace {

using namespace std::chrono_literals;

struct Answer {
    std::vector<Token> tokens;
    std::vector<std::uint32_t> progress;
    std::optional<Started> started;
    std::optional<Finished> finished;
    std::optional<Error> error;
};

/// Everything up to the close; checks the order that messages.h promises.
Answer read_all(Outbox& outbox) {
    Answer answer;
    while (auto event = outbox.take()) {
        EXPECT_FALSE(answer.finished || answer.error) << "an event after the last one";
        if (const auto* started = std::get_if<Started>(&*event)) {
            EXPECT_FALSE(answer.started);
            answer.started = *started;
        } else if (const auto* progress = std::get_if<Progress>(&*event)) {
            EXPECT_TRUE(answer.started && answer.tokens.empty());
            answer.progress.push_back(progress->computed_tokens);
        } else if (const auto* tokens = std::get_if<Tokens>(&*event)) {
            EXPECT_TRUE(answer.started);
            for (const Emitted& emitted : tokens->accepted) answer.tokens.push_back(emitted.token);
        } else if (const auto* finished = std::get_if<Finished>(&*event)) {
            answer.finished = *finished;
        } else {
            answer.error = std::get<Error>(*event);
        }
    }
    EXPECT_TRUE(answer.finished || answer.error) << "the outbox closed without a last word";
    return answer;
}

std::vector<Token> prompt_of(std::size_t tokens, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<Token> prompt(tokens);
    for (Token& token : prompt) token = Token(random() % 64);
    return prompt;
}

Submit request(std::uint64_t id, std::size_t prompt_tokens, std::uint32_t max_tokens) {
    return {.id = id,
            .prompt = prompt_of(prompt_tokens, unsigned(id)),
            .max_tokens = max_tokens,
            .sampling = {.seed = id},
            .outbox = std::make_shared<Outbox>(outbox_room(prompt_tokens, max_tokens))};
}

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

std::unique_ptr<Engine> start(const std::shared_ptr<Toy>& toy, const EngineOptions& options = {}) {
    return Engine::start(std::make_unique<ToyRunner>(toy), options);
}

Submit copy_of(const Submit& original) {
    Submit copy = original;
    copy.outbox = std::make_shared<Outbox>(outbox_room(copy.prompt.size(), copy.max_tokens));
    return copy;
}

Answer alone(const Submit& original) {
    const auto engine = start(std::make_shared<Toy>());
    Submit copy = copy_of(original);
    const auto outbox = copy.outbox;
    EXPECT_TRUE(engine->submit(std::move(copy)));
    return read_all(*outbox);
}

/// Lets the engine's thread take one step at a time.
struct Gate {
    std::shared_ptr<Channel<int>> entered = std::make_shared<Channel<int>>(100000);
    std::shared_ptr<Channel<int>> permits = std::make_shared<Channel<int>>(100000);

    void guard(Toy& toy) const {
        toy.before = [entered = entered, permits = permits](const Step& step) -> Status {
            EXPECT_TRUE(entered->send(int(step.tokens.size())));
            permits->take();
            return Done{};
        };
    }
    /// Waits until a step is about to be computed, and says how many rows it has.
    int await() const { return entered->take().value(); }
    void let_one_pass() const { EXPECT_TRUE(permits->send(0)); }
    void open() const { permits->close(); }
};

TEST(Engine, TellsTheStoryOfARequestInOrder) {
    const auto toy = std::make_shared<Toy>();
    const auto engine = start(toy);
    Submit submit = request(1, 600, 5);
    const auto outbox = submit.outbox;
    ASSERT_TRUE(engine->submit(std::move(submit)));
    const Answer answer = read_all(*outbox);
    EXPECT_EQ(answer.started->prompt_tokens, 600u);
    EXPECT_EQ(answer.progress, (std::vector<std::uint32_t>{256, 512, 600}));
    EXPECT_EQ(answer.tokens.size(), 5u);
    ASSERT_TRUE(answer.finished);
    EXPECT_EQ(answer.finished->reason, Finished::Reason::length);
    EXPECT_EQ(answer.finished->prompt_tokens, 600u);
    EXPECT_EQ(answer.finished->reply_tokens, 5u);
    EXPECT_GE(answer.finished->queue_seconds, 0);
    EXPECT_GT(answer.finished->prefill_seconds, 0);
    EXPECT_GT(answer.finished->decode_seconds, 0);
    const EngineCounters counters = engine->counters();
    EXPECT_EQ(counters.requests, 1u);
    EXPECT_EQ(counters.steps,
              7u);  // the last prompt step gives the first token; the last token is not computed
    EXPECT_EQ(counters.prompt_tokens, 600u);
    EXPECT_EQ(counters.reply_tokens, 5u);
    EXPECT_EQ(counters.running, 0u);
    EXPECT_EQ(counters.waiting, 0u);
}

TEST(Engine, AStopTokenEndsTheReplyAndIsNotOfIt) {
    Submit plain = request(3, 20, 50);
    const Answer whole = alone(plain);
    Submit stopping = copy_of(plain);
    stopping.stop_tokens = {whole.tokens[9]};
    const auto first = std::ranges::find(whole.tokens, whole.tokens[9]);
    const Answer answer = alone(stopping);
    EXPECT_EQ(answer.tokens, std::vector<Token>(whole.tokens.begin(), first));
    EXPECT_EQ(answer.finished->reason, Finished::Reason::stop_token);
    EXPECT_EQ(answer.finished->reply_tokens, answer.tokens.size());
}

TEST(Engine, TokensBeyondTheSampledVocabularyAreNeverSaid) {
    const auto engine = start(std::make_shared<Toy>(), {.sampled_vocabulary = 10});
    Submit submit = request(1, 20, 200);
    const auto outbox = submit.outbox;
    ASSERT_TRUE(engine->submit(std::move(submit)));
    for (const Token token : read_all(*outbox).tokens) EXPECT_LT(token, 10);
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

TEST(Engine, ACancelledRequestGivesItsPlaceToTheNextAtTheNextStep) {
    const auto toy = std::make_shared<Toy>();
    toy->info.sequences = 1;
    Gate gate;
    gate.guard(*toy);
    auto engine = start(toy);
    Submit first = request(1, 2000, 100), second = request(2, 33, 1);
    const auto first_outbox = first.outbox, second_outbox = second.outbox;
    ASSERT_TRUE(engine->submit(std::move(first)));
    ASSERT_TRUE(engine->submit(std::move(second)));
    EXPECT_EQ(gate.await(), 256);
    engine->cancel({.id = 1});
    gate.let_one_pass();
    EXPECT_EQ(gate.await(), 33);  // the next step is the other's
    gate.open();
    EXPECT_EQ(read_all(*first_outbox).finished->reason, Finished::Reason::cancelled);
    EXPECT_EQ(read_all(*second_outbox).finished->reason, Finished::Reason::length);
}

TEST(Engine, ARequestCanBeCancelledWhileItWaits) {
    const auto toy = std::make_shared<Toy>();
    toy->info.sequences = 1;
    Gate gate;
    gate.guard(*toy);
    auto engine = start(toy);
    Submit first = request(1, 10, 3), second = request(2, 10, 3);
    const auto first_outbox = first.outbox, second_outbox = second.outbox;
    ASSERT_TRUE(engine->submit(std::move(first)));
    ASSERT_TRUE(engine->submit(std::move(second)));
    gate.await();
    EXPECT_EQ(engine->counters().waiting, 1u);
    engine->cancel({.id = 2});
    engine->cancel({.id = 77});  // nobody's
    gate.let_one_pass();
    const Answer answer = read_all(*second_outbox);  // while the first still runs
    EXPECT_EQ(answer.finished->reason, Finished::Reason::cancelled);
    EXPECT_FALSE(answer.started);
    EXPECT_EQ(engine->counters().waiting, 0u);
    gate.open();
    EXPECT_EQ(read_all(*first_outbox).tokens.size(), 3u);
}

TEST(Engine, AReaderThatIsGoneFreesItsPlace) {
    const auto toy = std::make_shared<Toy>();
    toy->info.sequences = 1;
    Gate gate;
    gate.guard(*toy);
    auto engine = start(toy);
    Submit leaving = request(1, 10, 1000), slow = request(2, 10, 1000), waiting = request(3, 10, 5),
           last = request(4, 10, 2);
    slow.outbox = std::make_shared<Outbox>(4);  // and nobody reads it
    const auto leaving_outbox = leaving.outbox, waiting_outbox = waiting.outbox, last_outbox = last.outbox;
    for (Submit* submit : {&leaving, &slow, &waiting, &last}) ASSERT_TRUE(engine->submit(std::move(*submit)));
    gate.await();
    leaving_outbox->close();
    waiting_outbox->close();
    gate.open();
    EXPECT_EQ(read_all(*last_outbox).finished->reason, Finished::Reason::length);
    engine.reset();
    EXPECT_LE(toy->steps.size(), 1 + 4 + 2u);
}

TEST(Engine, AFullQueueRefusesAndAPlaceThatIsFreeAgainTakes) {
    const auto toy = std::make_shared<Toy>();
    toy->info.sequences = 2;
    Gate gate;
    gate.guard(*toy);
    auto engine = start(toy, {.queue = 3});
    std::vector<std::shared_ptr<Outbox>> outboxes;
    for (std::uint64_t id = 0; id < 5; ++id) {
        Submit submit = request(id, 10, 4);
        outboxes.push_back(submit.outbox);
        ASSERT_TRUE(engine->submit(std::move(submit)));
    }
    const Status refused = engine->submit(request(5, 10, 4));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().fault, Fault::out_of_memory);
    EXPECT_EQ(engine->counters().requests, 5u);
    gate.open();
    read_all(*outboxes[0]);
    EXPECT_TRUE(engine->submit(request(5, 10, 4)));
    for (std::size_t i = 1; i < 5; ++i) EXPECT_EQ(read_all(*outboxes[i]).tokens.size(), 4u);
}

TEST(Engine, ShutdownAnswersEverybodyAndWaitsForOneStepAtMost) {
    const auto toy = std::make_shared<Toy>();
    Gate gate;
    gate.guard(*toy);
    auto engine = start(toy);
    std::vector<std::shared_ptr<Outbox>> outboxes;
    for (std::uint64_t id = 0; id < 10; ++id) {
        Submit submit = request(id, 3000, 900);
        outboxes.push_back(submit.outbox);
        ASSERT_TRUE(engine->submit(std::move(submit)));
    }
    gate.await();
    std::thread closing([&] { engine.reset(); });
    // Wherever the closing thread is by now: at most the steps begun before the inbox was closed are
    // finished.
    while (!outboxes.back()->closed()) {
        gate.let_one_pass();
        std::this_thread::sleep_for(20ms);
    }
    closing.join();
    for (const auto& outbox : outboxes)
        EXPECT_EQ(read_all(*outbox).finished->reason, Finished::Reason::cancelled);
    EXPECT_LT(toy->steps.size(), 47u);  // 3000 tokens of four prompts would take as many
}

TEST(Engine, ADeviceThatFailsIsToldToEverybodyAndStaysFailed) {
    const auto toy = std::make_shared<Toy>();
    toy->info.sequences = 2;
    Gate gate;
    gate.guard(*toy);
    int steps = 0;
    toy->before = [&steps, wait = toy->before](const Step& step) -> Status {
        TRY(wait(step));
        return ++steps == 3 ? fail(Fault::device, "the device burns") : Status(Done{});
    };
    auto engine = start(toy);
    std::vector<std::shared_ptr<Outbox>> outboxes;
    for (std::uint64_t id = 0; id < 4; ++id) {
        Submit submit = request(id, 10, 50);
        outboxes.push_back(submit.outbox);
        ASSERT_TRUE(engine->submit(std::move(submit)));
    }
    gate.open();
    for (const auto& outbox : outboxes) {
        const Answer answer = read_all(*outbox);
        ASSERT_TRUE(answer.error);
        EXPECT_EQ(answer.error->fault, Fault::device);
        EXPECT_EQ(answer.error->message, "the device burns");
    }
    const Status late = engine->submit(request(9, 10, 5));
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().fault, Fault::device);
    EXPECT_EQ(late.error().message, "the device burns");
    EXPECT_EQ(engine->counters().running, 0u);
    EXPECT_EQ(engine->counters().waiting, 0u);
}

TEST(Engine, LogitsThatAreNoNumbersEndTheirRequestAlone) {
    const auto toy = std::make_shared<Toy>();
    int steps = 0;
    toy->after = [&steps](std::span<float> logits) {
        if (++steps == 4) logits[5] = std::numeric_limits<float>::quiet_NaN();  // the first sequence's row
    };
    const auto engine = start(toy);
    Submit broken = request(1, 10, 10);
    const auto broken_outbox = broken.outbox;
    ASSERT_TRUE(engine->submit(std::move(broken)));
    const Answer answer = read_all(*broken_outbox);
    ASSERT_TRUE(answer.error);
    EXPECT_EQ(answer.error->fault, Fault::device);
    EXPECT_EQ(answer.tokens.size(), 3u);
    Submit healthy = request(2, 10, 10);
    const auto healthy_outbox = healthy.outbox;
    ASSERT_TRUE(engine->submit(std::move(healthy)));
    EXPECT_EQ(read_all(*healthy_outbox).tokens.size(), 10u);
}

TEST(Engine, RefusesWhatCannotBeWithTheNumbers) {
    const auto toy = std::make_shared<Toy>();
    toy->info.context = 100;
    const auto engine = start(toy);
    const auto refusal = [&](Submit submit) {
        const Status status = engine->submit(std::move(submit));
        if (status) return std::string();
        EXPECT_EQ(status.error().fault, Fault::invalid_input);
        return status.error().message;
    };
    using testing::internal::RE;
    EXPECT_TRUE(RE::PartialMatch(refusal(request(1, 100, 1)), RE("100 tokens.*context holds 100")));
    EXPECT_TRUE(RE::PartialMatch(refusal(request(1, 0, 1)), RE("empty")));
    EXPECT_TRUE(RE::PartialMatch(refusal(request(1, 9, 0)), RE("max_tokens")));
    Submit foreign = request(1, 9, 1);
    foreign.prompt[7] = 64;
    EXPECT_TRUE(RE::PartialMatch(refusal(foreign), RE("token 64 at place 7.*64")));
    foreign.prompt[7] = -1;
    EXPECT_TRUE(RE::PartialMatch(refusal(foreign), RE("token -1 at place 7")));
    Submit hot = request(1, 9, 1);
    hot.sampling.temperature = -1;
    EXPECT_TRUE(RE::PartialMatch(refusal(hot), RE("temperature")));
    EXPECT_EQ(engine->counters().requests, 0u);

    const auto small = std::make_shared<Toy>();
    small->info.pages = 5;
    const Status status = start(small)->submit(request(1, 80, 1));
    ASSERT_FALSE(status);
    EXPECT_TRUE(RE::PartialMatch(status.error().message, RE("80 tokens.*memory.*holds 80")));
}

TEST(Engine, MaxTokensIsLoweredToWhatTheContextLeaves) {
    const auto toy = std::make_shared<Toy>();
    toy->info.context = 100;
    const auto engine = start(toy);
    Submit submit = request(1, 90, 4000000000u);
    submit.outbox = std::make_shared<Outbox>(1000);
    const auto outbox = submit.outbox;
    ASSERT_TRUE(engine->submit(std::move(submit)));
    const Answer answer = read_all(*outbox);
    EXPECT_EQ(answer.tokens.size(), 10u);
    EXPECT_EQ(answer.finished->reason, Finished::Reason::length);
}

TEST(Engine, ANumberThatIsInUseIsRefusedAndHarmsNobody) {
    const auto toy = std::make_shared<Toy>();
    Gate gate;
    gate.guard(*toy);
    const auto engine = start(toy);
    Submit first = request(1, 10, 5), second = request(1, 10, 5);
    const auto first_outbox = first.outbox, second_outbox = second.outbox;
    ASSERT_TRUE(engine->submit(std::move(first)));
    ASSERT_TRUE(engine->submit(std::move(second)));
    gate.open();
    EXPECT_EQ(read_all(*second_outbox).error->fault, Fault::invalid_input);
    EXPECT_EQ(read_all(*first_outbox).tokens.size(), 5u);
    EXPECT_EQ(engine->counters().waiting, 0u);
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

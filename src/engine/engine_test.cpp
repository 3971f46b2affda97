// The engine over the toy model, one claim at a time. Whatever happens, each outbox ends.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <thread>

#include "engine/engine_help_test.h"

namespace kapitsa {
namespace {

using namespace std::chrono_literals;

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

}  // namespace
}  // namespace kapitsa

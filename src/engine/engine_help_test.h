// What the tests of the engine share: requests, a reader of whole answers, and a gate between steps.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <variant>
#include <vector>

#include "engine/engine.h"
#include "engine/toy_runner_test.h"

namespace kapitsa {

struct Answer {
    std::vector<Token> tokens;
    std::vector<std::uint32_t> progress;
    std::optional<Started> started;
    std::optional<Finished> finished;
    std::optional<Error> error;
};

/// Everything up to the close; checks the order that messages.h promises.
inline Answer read_all(Outbox& outbox) {
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

inline std::vector<Token> prompt_of(std::size_t tokens, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<Token> prompt(tokens);
    for (Token& token : prompt) token = Token(random() % 64);
    return prompt;
}

inline Submit request(std::uint64_t id, std::size_t prompt_tokens, std::uint32_t max_tokens) {
    return {.id = id,
            .prompt = prompt_of(prompt_tokens, unsigned(id)),
            .max_tokens = max_tokens,
            .sampling = {.seed = id},
            .outbox = std::make_shared<Outbox>(outbox_room(prompt_tokens, max_tokens))};
}

inline std::unique_ptr<Engine> start(const std::shared_ptr<Toy>& toy, const EngineOptions& options = {}) {
    return Engine::start(std::make_unique<ToyRunner>(toy), options);
}

inline Submit copy_of(const Submit& original) {
    Submit copy = original;
    copy.outbox = std::make_shared<Outbox>(outbox_room(copy.prompt.size(), copy.max_tokens));
    return copy;
}

inline Answer alone(const Submit& original) {
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

}  // namespace kapitsa

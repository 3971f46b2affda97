// The engine as its callers see it: requests are checked here, on the caller's thread, before they cross
// over.

#include "engine/engine.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "engine/loop.h"
#include "engine/tally.h"

namespace kapitsa {
namespace {

std::size_t places(const EngineOptions& options, const RunnerInfo& info) {
    return std::size_t(options.queue) + info.sequences;
}

class ThreadedEngine final : public Engine {
public:
    ThreadedEngine(std::unique_ptr<Runner> runner, const EngineOptions& options)
        : runner_(std::move(runner)),
          info_(runner_->info()),
          options_(options),
          // Between two steps: every request that may be open, those that finish during a step, and a
          // cancellation of each. Twice that, so that a request may be cancelled twice.
          inbox_(4 * (places(options, info_) + info_.sequences)),
          loop_(*runner_, options, inbox_, tally_),
          thread_([this] { loop_.run(); }) {}

    ~ThreadedEngine() override {
        inbox_.close();
        thread_.join();
    }

    const RunnerInfo& info() const override { return info_; }

    Status submit(Submit request) override {
        CHECK(request.outbox != nullptr);
        if (tally_.failed.load(std::memory_order_acquire)) return fail(Fault::device, tally_.failure);
        TRY(check(request));
        request.max_tokens =
            std::min(request.max_tokens, tokens_max() - std::uint32_t(request.prompt.size()));
        request.submitted = Sequence::Clock::now();
        TRY(take_a_place());
        if (!inbox_.send(std::move(request))) {
            tally_.open.fetch_sub(1, std::memory_order_relaxed);
            return refused();
        }
        tally_.requests.fetch_add(1, std::memory_order_relaxed);
        return Done{};
    }

    void cancel(Cancel cancel) override {
        // Full of cancellations beyond one a request, or closed: then everybody is answered anyway.
        if (!inbox_.send(cancel)) log_debug("a cancellation was dropped");
    }

    EngineCounters counters() const override {
        const auto relaxed = std::memory_order_relaxed;
        const std::uint32_t running = tally_.running.load(relaxed), open = tally_.open.load(relaxed);
        return {.requests = tally_.requests.load(relaxed),
                .steps = tally_.steps.load(relaxed),
                .prompt_tokens = tally_.prompt_tokens.load(relaxed),
                .reply_tokens = tally_.reply_tokens.load(relaxed),
                .running = running,
                .waiting = open > running ? open - running : 0,
                .experts = runner_->expert_counters(),
                .tables = runner_->table_counters()};
    }

private:
    /// Tokens that one sequence can hold, when it is alone.
    std::uint32_t tokens_max() const {
        return std::uint32_t(
            std::min<std::uint64_t>(info_.context, std::uint64_t(info_.pages) * page_tokens));
    }

    Status check(const Submit& request) const {
        const auto refuse = [](std::string message) {
            return fail(Fault::invalid_input, std::move(message));
        };
        const std::size_t tokens = request.prompt.size();
        if (tokens == 0) return refuse("the prompt is empty");
        if (request.max_tokens == 0) return refuse("max_tokens must be at least 1");
        if (tokens >= tokens_max()) {
            const bool context = tokens_max() == info_.context;
            return refuse("the prompt has " + std::to_string(tokens) + " tokens, and " +
                          (context ? "the context" : "the memory for attention") + " holds " +
                          std::to_string(tokens_max()) +
                          ", reply included: shorten the prompt or start with " +
                          (context ? "a larger context" : "more of this memory"));
        }
        for (std::size_t i = 0; i < tokens; ++i)
            if (request.prompt[i] < 0 || std::uint32_t(request.prompt[i]) >= info_.vocabulary)
                return refuse("token " + std::to_string(request.prompt[i]) + " at place " +
                              std::to_string(i) + " of the prompt is not of the vocabulary, which has " +
                              std::to_string(info_.vocabulary));
        TRY(check_pictures(request));
        return check_sampling(request.sampling, info_.vocabulary);
    }

    Status check_pictures(const Submit& request) const {
        std::size_t end = 0;
        for (const auto& [first, picture] : request.pictures) {
            if (info_.picture_patches == 0) return fail(Fault::unsupported, info_.blind_because);
            CHECK(picture != nullptr && first >= end);
            end = std::size_t(first) + picture->tokens();
            if (picture->side != info_.picture_side || picture->block != info_.picture_block ||
                picture->patches() == 0 || picture->patches() > info_.picture_patches ||
                picture->rows % picture->block != 0 || picture->columns % picture->block != 0 ||
                picture->pixels.size() !=
                    std::size_t(picture->patches()) * 3 * picture->side * picture->side ||
                end > request.prompt.size())
                return fail(Fault::invalid_input, "a picture of " + std::to_string(picture->rows) + " x " +
                                                      std::to_string(picture->columns) +
                                                      " patches is not one that this model can be shown");
        }
        return Done{};
    }

    /// Counts the request in, unless all places are taken.
    Status take_a_place() {
        std::uint32_t open = tally_.open.load(std::memory_order_relaxed);
        do
            if (open >= places(options_, info_))
                return fail(Fault::out_of_memory, "the queue is full: " + std::to_string(open) +
                                                      " requests run or wait; try again later");
        while (!tally_.open.compare_exchange_weak(open, open + 1, std::memory_order_relaxed));
        return Done{};
    }

    /// Why the inbox did not take a request.
    Status refused() const {
        if (tally_.failed.load(std::memory_order_acquire)) return fail(Fault::device, tally_.failure);
        if (inbox_.closed()) return fail(Fault::cancelled, "the engine is shutting down");
        return fail(Fault::out_of_memory, "the engine's inbox is full; try again later");
    }

    const std::unique_ptr<Runner> runner_;
    const RunnerInfo info_;  // a copy: the runner is the engine thread's
    const EngineOptions options_;
    Tally tally_;
    Channel<Mail> inbox_;
    Loop loop_;
    std::thread thread_;  // the last: it starts when all the rest is there
};

}  // namespace

std::unique_ptr<Engine> Engine::start(std::unique_ptr<Runner> runner, const EngineOptions& options) {
    CHECK(runner != nullptr);
    CHECK(runner->info().vocabulary > 0);
    CHECK(runner->info().pages > 0);
    return std::make_unique<ThreadedEngine>(std::move(runner), options);
}

}  // namespace kapitsa

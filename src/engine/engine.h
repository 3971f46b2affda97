// The engine: one thread that owns the model, the pools and the scheduler. It speaks tokens; it has never
// seen a word. Requests and cancellations reach it by its inbox, tokens leave by an outbox a request.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "engine/messages.h"
#include "model/runner.h"

namespace kapitsa {

struct EngineOptions {
    std::uint32_t queue = 64;           // requests that may wait for a place; one more is refused
    std::uint32_t prefill_chunk = 256;  // rows of prompt a step, over all requests; replies come first
};

/// What the engine has done so far; read from any thread.
struct EngineCounters {
    std::uint64_t requests = 0, steps = 0, prompt_tokens = 0, reply_tokens = 0;
    std::uint32_t running = 0, waiting = 0;
};

class Engine {
public:
    /// Starts the thread. The runner is the engine's from here on.
    static std::unique_ptr<Engine> start(std::unique_ptr<Runner> runner, const EngineOptions& options = {});
    /// Cancels what still runs (each outbox gets Finished) and joins the thread.
    virtual ~Engine() = default;

    virtual const RunnerInfo& info() const = 0;
    /// Fault::out_of_memory when the queue is full; Fault::invalid_input, with both numbers, when prompt and
    /// reply cannot fit the context or a token is not of the vocabulary. After success the outbox will end in
    /// Finished or an Error.
    virtual Status submit(Submit request) = 0;
    /// Frees the request's place within one step. Unknown ids are ignored: it may just have finished.
    virtual void cancel(Cancel cancel) = 0;
    virtual EngineCounters counters() const = 0;
};

}  // namespace kapitsa

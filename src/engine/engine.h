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
    std::uint32_t queue = 64;                // requests that may wait for a place; one more is refused
    std::uint32_t prefill_chunk = 256;       // rows of prompt a step, over all requests; replies come first
    std::size_t picture_bytes = 256u << 20;  // of pictures kept for when they are shown again
    std::uint32_t sampled_vocabulary = 0;    // tokens from here on are never sampled: the model's rows may be
                                             // padded beyond what the tokenizer knows; 0: all may be
};

/// What the engine has done so far; read from any thread.
struct EngineCounters {
    std::uint64_t requests = 0, steps = 0, prompt_tokens = 0, reply_tokens = 0;
    std::uint32_t running = 0, waiting = 0;
    DiskCounters experts = {}, tables = {};
};

class Engine {
public:
    /// Starts the thread. The runner is the engine's from here on. Its steps must have a row for each of its
    /// sequences: every reply moves on at every step.
    static std::unique_ptr<Engine> start(std::unique_ptr<Runner> runner, const EngineOptions& options = {});
    /// Cancels what still runs (each outbox gets Finished) and joins the thread.
    virtual ~Engine() = default;

    virtual const RunnerInfo& info() const = 0;
    /// Fault::out_of_memory when the queue is full; Fault::invalid_input, with both numbers, when the prompt
    /// leaves no room for a reply in the context or in the pages, when a token is not of the vocabulary or a
    /// setting is out of its range; Fault::device once the device has failed. After success the outbox will
    /// end in Finished or an Error, and be closed.
    virtual Status submit(Submit request) = 0;
    /// Frees the request's place within one step. Unknown ids are ignored: it may just have finished. One is
    /// enough for a request; a caller that sends them without end may find some dropped.
    virtual void cancel(Cancel cancel) = 0;
    virtual EngineCounters counters() const = 0;
};

}  // namespace kapitsa

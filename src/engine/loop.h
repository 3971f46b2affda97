// What the engine thread does: read the mail, decide a step, compute it, sample, send. It alone touches the
// runner, the pages and the scheduler, so that none of them has a lock; a step is the unit of time.
// Requests were validated before they came here; readers may vanish at any moment.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cache/page_pool.h"
#include "engine/engine.h"
#include "engine/sampler.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"
#include "engine/sights.h"
#include "engine/tally.h"
#include "model/runner.h"

namespace kapitsa {

class Loop {
public:
    /// All three outlive it.
    Loop(Runner& runner, const EngineOptions& options, Channel<Mail>& inbox, Tally& tally);

    /// Returns when the inbox is closed, and then everybody has been answered.
    void run();

private:
    void handle(Submit&& request);
    void handle(const Cancel& cancel);
    Status step();
    Status admit();
    void drop_the_abandoned();
    Status look(std::span<const Share> shares);
    void build(std::span<const Share> shares);
    void accept(std::span<const Share> shares, std::span<float> logits);
    void choose_next(Sequence& sequence, std::span<float> logits);

    void send(Sequence& sequence, Event event);
    void finish(const Sequence& sequence, Finished::Reason reason);
    void part_with(const Sequence& sequence, Event last_words);
    void answer(Outbox& outbox, Event last_words);
    const Sequence* anybody();
    void cancel_all();
    void fail_all(const Error& error);

    Runner& runner_;
    Channel<Mail>& inbox_;
    Tally& tally_;
    PagePool pool_;
    Scheduler scheduler_;  // after the pool, whose pages its sequences hold
    Sampler sampler_;
    Sights sights_;
    std::vector<std::uint32_t> free_slots_;
    Step step_;  // kept between steps for its capacity
};

}  // namespace kapitsa

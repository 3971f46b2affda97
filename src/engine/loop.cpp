#include "engine/loop.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/log.h"

namespace kapitsa {
namespace {

using Clock = Sequence::Clock;

double seconds_between(Clock::time_point from, Clock::time_point to) {
    return std::chrono::duration<double>(to - from).count();
}

/// The three parts of its time; what it never came to is 0.
Finished account_of(const Sequence& sequence, Finished::Reason reason) {
    const auto now = Clock::now();
    const bool placed = sequence.slot.has_value(), replied = sequence.replied != Clock::time_point();
    const auto admitted = placed ? sequence.admitted : now;
    const auto first = replied ? sequence.replied : now;
    return {.reason = reason,
            .prompt_tokens = sequence.prompt_tokens,
            .cached_tokens = 0,
            .reply_tokens = sequence.reply_tokens(),
            .queue_seconds = seconds_between(sequence.submitted, admitted),
            .prefill_seconds = seconds_between(admitted, first),
            .decode_seconds = seconds_between(first, now)};
}

}  // namespace

Loop::Loop(Runner& runner, const EngineOptions& options, Channel<Mail>& inbox, Tally& tally)
    : runner_(runner),
      inbox_(inbox),
      tally_(tally),
      pool_(runner.info().pages),
      scheduler_({.rows_per_step = runner.info().rows_per_step,
                  .sequences = runner.info().sequences,
                  .reply_rows = 1,
                  .chunk = std::max(1u, options.prefill_chunk)}),
      sampler_(options.sampled_vocabulary == 0
                   ? runner.info().vocabulary
                   : std::min(options.sampled_vocabulary, runner.info().vocabulary)),
      sights_(options.picture_bytes) {
    for (std::uint32_t slot = runner.info().sequences; slot-- > 0;) free_slots_.push_back(slot);
}

void Loop::run() {
    for (;;) {
        // With nothing to compute, sleep until there is mail; else read what came during the step.
        std::optional<Mail> mail = scheduler_.empty() ? inbox_.take() : inbox_.poll();
        for (; mail; mail = inbox_.poll())
            std::visit([this](auto& message) { handle(std::move(message)); }, *mail);

        if (inbox_.closed()) return cancel_all();
        if (scheduler_.empty()) continue;
        // A device that failed stays failed: say so to everybody, and leave.
        if (const Status stepped = step(); !stepped) return fail_all(stepped.error());
    }
}

void Loop::handle(Submit&& request) {
    if (scheduler_.find(request.id))
        return answer(*request.outbox,
                      Error{Fault::invalid_input, "a request with the number " + std::to_string(request.id) +
                                                      " is running already"});
    scheduler_.add(std::make_unique<Sequence>(std::move(request)));
}

/// The place is free from here on. The tokens to be kept are of no use: nothing outlives its request.
void Loop::handle(const Cancel& cancel) {
    if (const Sequence* sequence = scheduler_.find(cancel.id)) finish(*sequence, Finished::Reason::cancelled);
}

Status Loop::step() {
    TRY(admit());
    drop_the_abandoned();
    const auto shares = scheduler_.plan();
    if (shares.empty()) return Done{};  // all that had a place were abandoned
    TRY(look(shares));
    build(shares);
    const std::span<float> logits = TRY(runner_.forward(step_));
    CHECK(logits.size() == step_.wanted.size() * runner_.info().vocabulary);
    tally_.steps.fetch_add(1, std::memory_order_relaxed);
    accept(shares, logits);
    return Done{};
}

/// Gives newcomers a place: a slot, and the promise of all the pages they may come to need. One that does not
/// fit closes the door for this step.
Status Loop::admit() {
    while (Sequence* newcomer = scheduler_.newcomer()) {
        auto pages = PageTable::reserve(pool_, newcomer->tokens_max());
        if (!pages) {
            CHECK(!scheduler_.running().empty());  // alone it would fit: submit() saw to that
            break;
        }
        newcomer->pages = std::move(*pages);
        newcomer->slot = free_slots_.back();
        free_slots_.pop_back();
        newcomer->admitted = Clock::now();
        scheduler_.admit();
        tally_.running.fetch_add(1, std::memory_order_relaxed);
        TRY(runner_.reset(*newcomer->slot));
        send(*newcomer, Started{newcomer->prompt_tokens, 0});
    }
    return Done{};
}

/// Those whose reader is gone, in the queue as well.
void Loop::drop_the_abandoned() {
    std::vector<const Sequence*> abandoned;
    for (const auto& sequence : scheduler_.running())
        if (sequence->outbox_full || sequence->outbox->closed()) abandoned.push_back(sequence.get());
    for (const auto& sequence : scheduler_.waiting())
        if (sequence->outbox->closed()) abandoned.push_back(sequence.get());
    for (const Sequence* sequence : abandoned) finish(*sequence, Finished::Reason::cancelled);
}

/// Pictures whose first tokens are about to be computed go through the model's tower.
Status Loop::look(std::span<const Share> shares) {
    for (const auto& [sequence, rows] : shares)
        for (std::size_t i = 0; i < sequence->pictures.size(); ++i) {
            const auto& [first, picture] = sequence->pictures[i];
            const bool needed =
                first < sequence->computed + rows && first + picture->tokens() > sequence->computed;
            if (needed && !sequence->seen[i]) sequence->seen[i] = TRY(sights_.of(picture, runner_));
        }
    return Done{};
}

/// Writes the shares down as rows. Each is a chain that is wanted in full, so each segment is `commit`. A
/// drafter's guesses would be more rows of a reply's segment, after its last token: each with its parent, all
/// of them wanted, and the segment not `commit`.
void Loop::build(std::span<const Share> shares) {
    step_.tokens.clear();
    step_.parents.clear();
    step_.segments.clear();
    step_.wanted.clear();
    step_.placed.clear();
    for (const auto& [sequence, rows] : shares) {
        const auto first = std::uint32_t(step_.tokens.size());
        const std::uint32_t begin = sequence->computed, end = begin + rows;
        sequence->pages.grow(end);
        step_.segments.push_back({.sequence = *sequence->slot,
                                  .first_row = first,
                                  .rows = rows,
                                  .committed = begin,
                                  .commit = true,
                                  .pages = sequence->pages.pages(),
                                  .shift = sequence->positions.shift(begin)});
        step_.tokens.insert(step_.tokens.end(), sequence->tokens.begin() + begin,
                            sequence->tokens.begin() + end);
        for (std::uint32_t row = first; row < first + rows; ++row) {
            const std::uint32_t token = begin + (row - first);
            step_.parents.push_back(row == first ? no_parent : std::int32_t(row - 1));
            if (sequence->positions.jumps(token))
                step_.placed.push_back(
                    {row, sequence->positions.at(token), sequence->embedding(token, runner_.info().width)});
        }
        if (end == sequence->known()) step_.wanted.push_back(first + rows - 1);
    }
}

/// Takes over what was computed, and chooses a token for each row that was wanted. (With a drafter: for each
/// node of the tree; the path that agrees would go to runner_.commit, and its tokens out together.)
void Loop::accept(std::span<const Share> shares, std::span<float> logits) {
    const std::size_t vocabulary = runner_.info().vocabulary;
    for (const auto& [sequence, rows] : shares) {
        const bool prompt = !sequence->replying();
        sequence->computed += rows;
        if (prompt) {
            tally_.prompt_tokens.fetch_add(rows, std::memory_order_relaxed);
            send(*sequence, Progress{sequence->computed});
        }
        if (sequence->lacking() > 0) continue;
        choose_next(*sequence, logits.first(vocabulary));
        logits = logits.subspan(vocabulary);
    }
    CHECK(logits.empty());
}

/// The sequence may be gone afterwards.
void Loop::choose_next(Sequence& sequence, std::span<float> logits) {
    auto chosen = sampler_.choose(logits, sequence.sampling, sequence.counts, sequence.known());
    if (!chosen) {
        log_error(chosen.error().message);
        return part_with(sequence, std::move(chosen.error()));
    }
    if (sequence.reply_tokens() == 0) sequence.replied = Clock::now();
    const Token token = chosen->token;
    if (std::ranges::find(sequence.stop_tokens, token) != sequence.stop_tokens.end())
        return finish(sequence, Finished::Reason::stop_token);

    sequence.tokens.push_back(token);
    if (counts_reply(sequence.sampling)) sequence.counts.add_reply(token);
    tally_.reply_tokens.fetch_add(1, std::memory_order_relaxed);
    Tokens tokens;
    tokens.accepted.push_back(std::move(*chosen));
    send(sequence, std::move(tokens));
    if (sequence.reply_tokens() == sequence.max_tokens) finish(sequence, Finished::Reason::length);
}

void Loop::send(Sequence& sequence, Event event) {
    if (!sequence.outbox->send(std::move(event))) sequence.outbox_full = true;
}

void Loop::finish(const Sequence& sequence, Finished::Reason reason) {
    part_with(sequence, account_of(sequence, reason));
}

/// Everything it held is free, and counted so, before its reader learns of it.
void Loop::part_with(const Sequence& sequence, Event last_words) {
    const auto outbox = sequence.outbox;
    if (sequence.slot) {
        free_slots_.push_back(*sequence.slot);
        tally_.running.fetch_sub(1, std::memory_order_relaxed);
    }
    scheduler_.remove(sequence);  // its pages go with it
    answer(*outbox, std::move(last_words));
}

void Loop::answer(Outbox& outbox, Event last_words) {
    tally_.open.fetch_sub(1, std::memory_order_relaxed);
    if (!outbox.send(std::move(last_words))) log_debug("a request ended after its reader had gone");
    outbox.close();
}

/// What was sent before the inbox closed is answered as well.
const Sequence* Loop::anybody() {
    while (std::optional<Mail> mail = inbox_.poll())
        std::visit([this](auto& message) { handle(std::move(message)); }, *mail);
    if (!scheduler_.running().empty()) return scheduler_.running().front().get();
    return scheduler_.waiting().empty() ? nullptr : scheduler_.waiting().front().get();
}

void Loop::cancel_all() {
    while (const Sequence* sequence = anybody()) finish(*sequence, Finished::Reason::cancelled);
}

void Loop::fail_all(const Error& error) {
    log_error(error.message);
    tally_.failure = error.message;
    tally_.failed.store(true, std::memory_order_release);
    inbox_.close();  // from here on submit() refuses
    while (const Sequence* sequence = anybody()) part_with(*sequence, Error{Fault::device, error.message});
}

}  // namespace kapitsa

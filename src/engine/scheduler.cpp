#include "engine/scheduler.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace kapitsa {
namespace {

/// How many of the rows it may have a prompt takes: to its end, or to the last grid line it reaches, or (with
/// fewer rows than a grid cell) to the last page it reaches, or all.
std::uint32_t chunk_of(const Sequence& prompt, std::uint32_t rows) {
    if (prompt.lacking() <= rows) return prompt.lacking();
    for (const std::uint32_t line : {Scheduler::grid, page_tokens}) {
        const std::uint32_t end = (prompt.computed + rows) / line * line;
        if (end > prompt.computed) return end - prompt.computed;
    }
    return rows;
}

}  // namespace

Scheduler::Scheduler(const Limits& limits) : limits_(limits) {
    static_assert(grid % page_tokens == 0);
    CHECK(limits.sequences > 0);
    CHECK(limits.reply_rows > 0);
    CHECK(limits.chunk > 0);
    // Whatever else happens, every reply moves on at every step. (And a prompt too: while there is one,
    // there are fewer replies than sequences.)
    CHECK(std::uint64_t(limits.sequences) * limits.reply_rows <= limits.rows_per_step);
    running_.reserve(limits.sequences);
    prompts_.reserve(limits.sequences);
    shares_.reserve(limits.sequences);
}

Sequence* Scheduler::newcomer() const {
    const bool free = running_.size() < limits_.sequences;
    return free && !waiting_.empty() ? waiting_.front().get() : nullptr;
}

void Scheduler::admit() {
    CHECK(newcomer() != nullptr);
    running_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
    // Behind those that are there, or a stream of newcomers would starve them.
    running_.back()->turn = ++turns_;
}

Sequence* Scheduler::find(std::uint64_t id) const {
    for (const auto& sequence : running_)
        if (sequence->id == id) return sequence.get();
    for (const auto& sequence : waiting_)
        if (sequence->id == id) return sequence.get();
    return nullptr;
}

std::unique_ptr<Sequence> Scheduler::remove(const Sequence& sequence) {
    const auto take_from = [&](auto& sequences) -> std::unique_ptr<Sequence> {
        const auto found = std::ranges::find(sequences, &sequence, &std::unique_ptr<Sequence>::get);
        if (found == sequences.end()) return nullptr;
        auto taken = std::move(*found);
        sequences.erase(found);
        return taken;
    };
    auto taken = take_from(running_);
    if (!taken) taken = take_from(waiting_);
    CHECK(taken != nullptr);
    return taken;
}

std::span<const Share> Scheduler::plan() {
    shares_.clear();
    prompts_.clear();
    std::uint32_t left = limits_.rows_per_step;
    for (const auto& sequence : running_) {
        if (!sequence->replying()) {
            prompts_.push_back(sequence.get());
            continue;
        }
        CHECK(sequence->lacking() > 0 && sequence->lacking() <= limits_.reply_rows);
        shares_.push_back({sequence.get(), sequence->lacking()});
        left -= sequence->lacking();
    }
    if (!prompts_.empty()) share_among_prompts(std::min(left, limits_.chunk));
    return shares_;
}

/// As many prompts as can have a grid cell each are worked on, in turn. Among them, the shorter ones go
/// first: what they leave of an equal part, the others get.
void Scheduler::share_among_prompts(std::uint32_t budget) {
    const std::size_t places = std::clamp<std::size_t>(budget / grid, 1, prompts_.size());
    std::ranges::sort(prompts_, {}, &Sequence::turn);
    prompts_.resize(places);
    for (Sequence* prompt : prompts_) prompt->turn = ++turns_;
    std::ranges::stable_sort(prompts_, {}, &Sequence::lacking);
    for (std::size_t i = 0; i < places; ++i) {
        Sequence& prompt = *prompts_[i];
        const std::uint32_t rows = chunk_of(prompt, budget / std::uint32_t(places - i));
        budget -= rows;
        shares_.push_back({&prompt, rows});
    }
}

}  // namespace kapitsa

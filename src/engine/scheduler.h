// Who waits, who runs, and what the next step computes of whom. Arithmetic on counts: it looks at no token,
// no page, no clock, and nothing here can block. Owns the sequences.
//
// Replies come first and whole, so that a long prompt never holds up a reply half said: that there is room
// for them is checked when the scheduler is made. Prompts share what is left, newcomers among them, so that a
// short prompt does not stand behind a long one. A prompt's chunk ends on a multiple of 64 positions, where
// the chunked form of the recurrent layers and the pages end too, or at the prompt's own end.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "engine/sequence.h"

namespace kapitsa {

struct Share {
    Sequence* sequence;
    std::uint32_t rows;
};

class Scheduler {
public:
    static constexpr std::uint32_t grid = 64;  // positions; a multiple of page_tokens

    struct Limits {
        std::uint32_t rows_per_step = 0, sequences = 0;
        std::uint32_t reply_rows = 1;  // the most a reply asks of one step: its last token and its drafts
        std::uint32_t chunk = 0;       // rows of prompts a step, over all of them
    };
    explicit Scheduler(const Limits& limits);

    void add(std::unique_ptr<Sequence> sequence) { waiting_.push_back(std::move(sequence)); }
    /// The one whose turn it is to be admitted; absent when none waits or no place is free. First come, first
    /// served: a large one is not overtaken for ever by small ones.
    Sequence* newcomer() const;
    /// Gives the newcomer its place.
    void admit();
    /// Absent when there is none with this id.
    Sequence* find(std::uint64_t id) const;
    /// Takes it out, wherever it stands.
    std::unique_ptr<Sequence> remove(const Sequence& sequence);

    std::span<const std::unique_ptr<Sequence>> running() const { return running_; }
    const std::deque<std::unique_ptr<Sequence>>& waiting() const { return waiting_; }
    bool empty() const { return running_.empty() && waiting_.empty(); }

    /// The shares of the next step, one a sequence: replies, then prompts. Not empty while anything runs.
    /// Valid until the next call.
    std::span<const Share> plan();

private:
    void share_among_prompts(std::uint32_t budget);

    Limits limits_;
    std::deque<std::unique_ptr<Sequence>> waiting_;   // in order of arrival
    std::vector<std::unique_ptr<Sequence>> running_;  // in order of admission
    std::vector<Sequence*> prompts_;                  // scratch
    std::vector<Share> shares_;
    std::uint64_t turns_ = 0;
};

}  // namespace kapitsa

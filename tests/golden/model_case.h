// A model under test: a checkpoint, a runner, and the shortest way to ask it for logits.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "formats/checkpoint.h"
#include "model/model_runner.h"

namespace kapitsa {

using Logits = std::vector<float>;  // [wanted, vocabulary]

class ModelCase {
public:
    /// `folder`: below tests/data/goldens, or absolute. `tower`: of a GGUF model, the file of its vision
    /// tower.
    explicit ModelCase(const std::string& folder, RunnerOptions options = {},
                       std::vector<std::uint32_t> taps = {}, const std::string& tower = "");

    ModelRunner& runner() { return *runner_; }
    std::uint32_t vocabulary() const { return runner_->info().vocabulary; }

    /// One sequence: its slot and how much of it is committed. Slots have pages of their own.
    struct Sequence {
        std::uint32_t slot = 0, committed = 0;
    };
    Sequence begin(std::uint32_t slot);

    /// One segment of a step under construction.
    struct Rows {
        Sequence* sequence;
        std::vector<Token> tokens;
        std::vector<std::int32_t> parents = {};  // by number in the segment; empty: a chain
        bool commit = true;
        std::vector<PlacedRow> placed = {};  // by number in the segment
        std::int32_t shift = 0;              // see Segment
    };
    /// Computes all segments in one step, every row's logits wanted. Chains that commit move their sequences
    /// on.
    /// @return by segment, then [rows, vocabulary]
    std::vector<Logits> step(std::vector<Rows> segments);
    Logits chain(Sequence& sequence, std::vector<Token> tokens);
    /// Computes rows of the drafter behind `committed` of its entries, every row's logits wanted. See
    /// ModelRunner::draft.
    Logits draft(const Sequence& sequence, std::uint32_t committed, std::vector<Token> tokens,
                 ModelRunner::Streams streams, const std::vector<std::uint32_t>& from);
    /// What attention layer `layer` remembers of a sequence's tokens. @return [committed, kv_heads, width]
    /// each
    struct Remembered {
        std::vector<float> keys, values;
    };
    Remembered remembered(const Sequence& sequence, std::uint32_t layer);
    /// Accepts rows of the last step's segment of this sequence, by number in the segment.
    void accept(Sequence& sequence, const std::vector<std::uint32_t>& path);

private:
    std::vector<Page> pages_of(std::uint32_t slot) const;

    std::unique_ptr<Checkpoint> checkpoint_;
    std::unique_ptr<ModelRunner> runner_;
    std::vector<std::uint32_t> first_rows_;  // [slots] of the last step's segments
};

/// The row of logits with this number.
inline std::vector<float> row_of(const Logits& logits, std::size_t row, std::size_t vocabulary) {
    return {logits.begin() + std::ptrdiff_t(row * vocabulary),
            logits.begin() + std::ptrdiff_t((row + 1) * vocabulary)};
}
Token argmax(const float* logits, std::size_t vocabulary);
inline Token argmax(const std::vector<float>& logits) { return argmax(logits.data(), logits.size()); }

/// The likeliest tokens behind a prompt, one by one.
std::vector<Token> greedy_answer(ModelCase& model, const std::vector<Token>& prompt, std::size_t length);

/// The largest difference; infinite if a value is not a number or the sizes differ.
double largest_difference(const std::vector<float>& a, const std::vector<float>& b);

std::vector<Token> tokens_of(const Json& list);

}  // namespace kapitsa

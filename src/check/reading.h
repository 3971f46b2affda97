// Models that read the same texts side by side: how surprised each is, and how far the others' distributions
// are from the first's at every position.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "check/divergence.h"
#include "model/runner.h"

namespace kapitsa {

/// A text is read in windows of so many tokens, each from an empty sequence, so that memory does not depend
/// on its length.
constexpr std::uint32_t reading_window = 1024;
/// Rows of a step: more than 16, so that recurrent rules take their chunked form where they have one.
constexpr std::uint32_t reading_rows = 64;

struct TextTokens {
    std::string name;
    std::vector<Token> tokens;
};

/// A runner with room for `reading_window` tokens in the sequence, and for `rows` rows a step, all of them
/// wanted. Two readers may share a runner if they have different sequences.
struct Reader {
    Runner* runner;
    std::uint32_t sequence;
    std::uint32_t rows;
};

/// Of one text. The first token of a window is given, so it counts nowhere.
struct Reading {
    std::string name;
    std::uint64_t tokens = 0;
    std::vector<double> surprise;  // [readers] nats, the sum over the tokens
    std::vector<Spread> apart;     // [readers - 1] of the readers behind the first from the first

    void add(const Reading& more);
    double perplexity(std::size_t reader) const;
};

/// Told after each step; false stops the reading with Fault::cancelled.
using ReadingProgress = std::function<bool(std::uint64_t done, std::uint64_t tokens)>;

/// All readers' models have one vocabulary, and every token is in it. Fault::device where a logit is no
/// finite number. @return one Reading a text
Result<std::vector<Reading>> read_texts(std::span<const TextTokens> texts, std::span<const Reader> readers,
                                        const ReadingProgress& progress);

}  // namespace kapitsa

#include "check/reading.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace kapitsa {
namespace {

/// The rows of one step: tokens, and what comes after each (for the last of a window: nothing).
using Tokens = std::span<const Token>;

/// One reader within one window.
class Window {
public:
    explicit Window(const Reader& reader) : reader_(reader) {
        const RunnerInfo& info = reader.runner->info();
        const std::uint32_t each = info.pages / info.sequences;
        for (std::uint32_t i = 0; i < each; ++i) pages_.push_back(reader.sequence * each + i);
    }

    Status begin() {
        committed_ = 0;
        return reader_.runner->reset(reader_.sequence);
    }

    /// Computes the tokens. @return their logits, valid until the next call
    Result<std::span<const float>> read(Tokens tokens) {
        logits_.clear();
        while (!tokens.empty()) {
            const std::size_t rows = std::min<std::size_t>(tokens.size(), reader_.rows);
            TRY(step(tokens.first(rows)));
            tokens = tokens.subspan(rows);
        }
        return std::span<const float>(logits_);
    }

private:
    Status step(Tokens tokens) {
        Step step;
        const auto rows = static_cast<std::uint32_t>(tokens.size());
        step.tokens.assign(tokens.begin(), tokens.end());
        step.segments = {{reader_.sequence, 0, rows, committed_, true, pages_}};
        for (std::uint32_t row = 0; row < rows; ++row) {
            step.parents.push_back(static_cast<std::int32_t>(row) - 1);
            step.wanted.push_back(row);
        }
        const std::span<float> logits = TRY(reader_.runner->forward(step));
        if (!all_finite(logits))
            return fail(Fault::device, "the model computes logits that are no finite numbers");
        logits_.insert(logits_.end(), logits.begin(), logits.end());
        committed_ += rows;
        return Done{};
    }

    Reader reader_;
    std::vector<Page> pages_;
    std::uint32_t committed_ = 0;
    std::vector<float> logits_;  // [rows, vocabulary]
};

class Readers {
public:
    explicit Readers(std::span<const Reader> readers)
        : vocabulary_(readers.front().runner->info().vocabulary) {
        for (const Reader& reader : readers) {
            CHECK(reader.runner->info().vocabulary == vocabulary_);
            windows_.emplace_back(reader);
        }
    }

    Reading empty(const std::string& name) const {
        return {.name = name,
                .tokens = 0,
                .surprise = std::vector<double>(windows_.size()),
                .apart = std::vector<Spread>(windows_.size() - 1)};
    }

    Status begin() {
        for (Window& window : windows_) TRY(window.begin());
        return Done{};
    }

    /// `after`: what follows the last of the tokens, or nothing.
    Status read(Tokens tokens, Tokens after, Reading& into) {
        std::vector<std::span<const float>> logits;
        for (Window& window : windows_) logits.push_back(TRY(window.read(tokens)));
        const std::size_t counted = tokens.size() - (after.empty() ? 1 : 0);
        for (std::size_t row = 0; row < counted; ++row) {
            const Token next = row + 1 < tokens.size() ? tokens[row + 1] : after.front();
            const auto of = [&](std::size_t reader) {
                return logits[reader].subspan(row * vocabulary_, vocabulary_);
            };
            for (std::size_t reader = 0; reader < logits.size(); ++reader) {
                into.surprise[reader] += surprise(of(reader), next);
                if (reader > 0) into.apart[reader - 1].add(divergence(of(0), of(reader)));
            }
        }
        into.tokens += counted;
        return Done{};
    }

private:
    std::size_t vocabulary_;
    std::vector<Window> windows_;
};

}  // namespace

void Reading::add(const Reading& more) {
    tokens += more.tokens;
    for (std::size_t i = 0; i < surprise.size(); ++i) surprise[i] += more.surprise[i];
    for (std::size_t i = 0; i < apart.size(); ++i) apart[i].add(more.apart[i]);
}

double Reading::perplexity(std::size_t reader) const {
    return tokens == 0 ? 1 : std::exp(surprise[reader] / static_cast<double>(tokens));
}

Result<std::vector<Reading>> read_texts(std::span<const TextTokens> texts, std::span<const Reader> readers,
                                        const ReadingProgress& progress) {
    CHECK(!readers.empty());
    Readers all(readers);
    std::uint64_t done = 0, tokens = 0;
    for (const TextTokens& text : texts) tokens += text.tokens.size();
    std::vector<Reading> readings;
    for (const TextTokens& text : texts) {
        Reading reading = all.empty(text.name);
        for (std::size_t window = 0; window < text.tokens.size(); window += reading_window) {
            Tokens left = Tokens(text.tokens).subspan(window);
            left = left.first(std::min<std::size_t>(left.size(), reading_window));
            TRY(all.begin());
            while (!left.empty()) {
                const std::size_t rows = std::min<std::size_t>(left.size(), reading_rows);
                TRY(all.read(left.first(rows), left.subspan(rows), reading));
                left = left.subspan(rows);
                done += rows;
                if (!progress(done, tokens)) return fail(Fault::cancelled, "interrupted");
            }
        }
        readings.push_back(std::move(reading));
    }
    return readings;
}

}  // namespace kapitsa

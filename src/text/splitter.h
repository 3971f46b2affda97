// Cuts text into words by a model's regexes: each in turn, on every piece that the one before it left, its
// matches and what lies between them. The words together are the text.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kapitsa {

/// A regex of a tokenizer file, compiled by PCRE2. Those files are written for Oniguruma: what the two
/// understand differently is refused, `\s` is given Oniguruma's meaning.
class SplitPattern {
public:
    static Result<SplitPattern> make(std::string_view regex);
    SplitPattern(SplitPattern&&) noexcept;
    SplitPattern& operator=(SplitPattern&&) noexcept;
    ~SplitPattern();

    /// One thread's place to match in.
    class Matcher {
    public:
        explicit Matcher(const SplitPattern& pattern);
        Matcher(Matcher&&) noexcept;
        ~Matcher();

        struct Match {
            std::size_t begin, end;
        };
        /// The first match at or after `from`, never empty; {size, size} when there is none, or when looking
        /// for it took more than a fixed amount of work. `text` is UTF-8.
        Match find(std::string_view text, std::size_t from);

    private:
        struct Impl;
        std::unique_ptr<Impl> impl_;
    };

private:
    struct Impl;
    explicit SplitPattern(std::unique_ptr<Impl> impl);
    std::unique_ptr<const Impl> impl_;
};

/// One thread's use of all patterns of a tokenizer.
class Splitter {
public:
    explicit Splitter(const std::vector<SplitPattern>& patterns) {
        for (const SplitPattern& pattern : patterns) matchers_.emplace_back(pattern);
    }

    /// Calls `word(std::string_view)` for each word of `text`, in order, until it returns false. True if it
    /// never does.
    template <typename Word>
    bool split(std::string_view text, const Word& word) {
        return split_from(0, text, word);
    }

private:
    template <typename Word>
    bool split_from(std::size_t depth, std::string_view text, const Word& word) {
        if (text.empty()) return true;
        if (depth == matchers_.size()) return word(text);
        for (std::size_t at = 0; at < text.size();) {
            const auto match = matchers_[depth].find(text, at);
            if (!split_from(depth + 1, text.substr(at, match.begin - at), word)) return false;
            if (!split_from(depth + 1, text.substr(match.begin, match.end - match.begin), word)) return false;
            at = match.end;
        }
        return true;
    }

    std::vector<SplitPattern::Matcher> matchers_;
};

}  // namespace kapitsa

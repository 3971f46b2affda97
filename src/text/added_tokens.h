// Finds added tokens ("<|im_end|>") in text: at each place the longest that touches no plain byte.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "formats/tokenizer_description.h"
#include "text/marked_text.h"

namespace kapitsa {

class AddedTokens {
public:
    struct Match {
        std::size_t begin, end;  // bytes of the text, with the white space that the token strips
        Token id;
    };

    /// `tokens` must outlive this; only those whose `normalized` is as asked are looked for.
    AddedTokens(const std::vector<AddedToken>& tokens, bool normalized);

    bool empty() const { return sorted_.empty(); }
    /// Calls `between(begin, end)` for each stretch without a token and `token(id)` for each token, in the
    /// order of the text, until one of them returns false. True if none does. `text` is UTF-8.
    template <typename Between, typename Found>
    bool cut(const MarkedText& text, const Between& between, const Found& found) const {
        std::size_t done = 0;
        for (std::size_t from = 0; const auto match = next(text, from, done);) {
            if (match->begin > done && !between(done, match->begin)) return false;
            if (!found(match->id)) return false;
            from = done = match->end;
        }
        return done == text.text.size() || between(done, text.text.size());
    }

private:
    /// The first match that begins at `from` or after. White space before `done` is not stripped again.
    std::optional<Match> next(const MarkedText& text, std::size_t from, std::size_t done) const;
    const AddedToken* longest_at_start(std::string_view text) const;

    std::vector<const AddedToken*> sorted_;  // by content
    std::array<bool, 256> begins_{};         // whether a token begins with this byte
};

}  // namespace kapitsa

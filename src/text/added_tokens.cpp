// The rule of the Hugging Face library (leftmost, then longest; lstrip and rstrip take white space with
// them), with one more: a plain byte is never part of a control token, nor stripped by one.
#include "text/added_tokens.h"

#include <algorithm>

namespace kapitsa {
namespace {

/// The characters of the Unicode property White_Space, as UTF-8.
constexpr std::string_view white_space[] = {
    "\t",     "\n",     "\v",     "\f",     "\r",     " ",      "\u0085", "\u00A0", "\u1680",
    "\u2000", "\u2001", "\u2002", "\u2003", "\u2004", "\u2005", "\u2006", "\u2007", "\u2008",
    "\u2009", "\u200A", "\u2028", "\u2029", "\u202F", "\u205F", "\u3000",
};

std::size_t space_at_start(std::string_view text) {
    std::size_t at = 0;
    for (bool found = true; found;) {
        found = false;
        for (const std::string_view space : white_space)
            if (text.substr(at).starts_with(space)) {
                at += space.size();
                found = true;
                break;
            }
    }
    return at;
}

std::size_t space_at_end(std::string_view text) {
    const std::size_t size = text.size();
    for (bool found = true; found;) {
        found = false;
        for (const std::string_view space : white_space)
            if (text.ends_with(space)) {
                text.remove_suffix(space.size());
                found = true;
                break;
            }
    }
    return size - text.size();
}

}  // namespace

AddedTokens::AddedTokens(const std::vector<AddedToken>& tokens, bool normalized) {
    for (const AddedToken& token : tokens) {
        if (token.normalized != normalized) continue;
        sorted_.push_back(&token);
        begins_[static_cast<unsigned char>(token.content[0])] = true;
    }
    std::sort(sorted_.begin(), sorted_.end(),
              [](const AddedToken* a, const AddedToken* b) { return a->content < b->content; });
}

/// Narrows the sorted tokens byte by byte to those that begin as the text does.
const AddedToken* AddedTokens::longest_at_start(std::string_view text) const {
    const AddedToken* longest = nullptr;
    auto low = sorted_.begin(), high = sorted_.end();
    for (std::size_t depth = 0; depth < text.size() && low != high; ++depth) {
        const auto byte = static_cast<unsigned char>(text[depth]);
        const auto byte_of = [&](const AddedToken* token) {
            return depth < token->content.size() ? static_cast<unsigned char>(token->content[depth]) : -1;
        };
        low = std::partition_point(low, high, [&](const AddedToken* token) { return byte_of(token) < byte; });
        high =
            std::partition_point(low, high, [&](const AddedToken* token) { return byte_of(token) <= byte; });
        if (low != high && (*low)->content.size() == depth + 1) longest = *low;
    }
    return longest;
}

std::optional<AddedTokens::Match> AddedTokens::next(const MarkedText& marked, std::size_t from,
                                                    std::size_t done) const {
    if (empty()) return std::nullopt;
    const std::string_view text = marked.text;
    auto plain = std::partition_point(marked.plain.begin(), marked.plain.end(),
                                      [&](const MarkedText::Range& range) { return range.end <= from; });
    for (std::size_t at = from; at < text.size();) {
        const std::size_t control_end = plain == marked.plain.end() ? text.size() : plain->begin;
        if (at >= control_end) {
            at = plain->end;
            ++plain;
            continue;
        }
        while (at < control_end && !begins_[static_cast<unsigned char>(text[at])]) ++at;
        const AddedToken* token = longest_at_start(text.substr(at, control_end - at));
        if (token == nullptr) {
            at += at < control_end ? 1 : 0;
            continue;
        }
        Match match{at, at + token->content.size(), token->id};
        const std::size_t control_begin =
            plain == marked.plain.begin() ? done : std::max(done, std::prev(plain)->end);
        if (token->left_strip)
            match.begin -= space_at_end(text.substr(control_begin, match.begin - control_begin));
        if (token->right_strip) match.end += space_at_start(text.substr(match.end, control_end - match.end));
        return match;
    }
    return std::nullopt;
}

}  // namespace kapitsa

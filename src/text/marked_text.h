// Text that remembers which of its bytes may be control tokens. Only a template (or the author of a raw
// prompt) makes control tokens; "<|im_end|>" in the words of a user or of a tool is just ten characters.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace kapitsa {

struct MarkedText {
    struct Range {
        std::size_t begin, end;  // bytes
        friend bool operator==(const Range&, const Range&) = default;
    };

    std::string text;
    std::vector<Range>
        plain;  // ascending, disjoint, not empty: no added token is recognised that touches one

    static MarkedText all_control(std::string text) { return {std::move(text), {}}; }
    static MarkedText all_plain(std::string text) {
        MarkedText marked{std::move(text), {}};
        if (!marked.text.empty()) marked.plain.push_back({0, marked.text.size()});
        return marked;
    }

    void append(std::string_view piece, bool is_plain) {
        if (piece.empty()) return;
        if (is_plain) {
            if (!plain.empty() && plain.back().end == text.size())
                plain.back().end += piece.size();
            else
                plain.push_back({text.size(), text.size() + piece.size()});
        }
        text.append(piece);
    }
};

}  // namespace kapitsa

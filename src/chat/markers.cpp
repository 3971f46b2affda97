#include "chat/markers.h"

#include <algorithm>

namespace kapitsa::markers {

namespace {

std::size_t white_bytes(std::string_view text) {
    return std::min(text.find_first_not_of(" \t\r\n"), text.size());
}

/// `<word=NAME>`. A name is not empty and has no tag or line end in it.
Header named(std::string_view text, std::string_view word) {
    const Match begins = literal(text, word);
    if (begins != Match::yes) return {begins};
    const std::string_view rest = text.substr(word.size());
    const std::size_t end = rest.find_first_of("<>\n");
    if (end == rest.npos) return {rest.size() > name_limit ? Match::no : Match::maybe};
    if (rest[end] != '>' || end == 0 || end > name_limit) return {};
    return {Match::yes, word.size() + end + 1, std::string(rest.substr(0, end))};
}

/// `tag`, white space, and then one of `followers`.
Match followed(std::string_view text, std::string_view tag, std::initializer_list<std::string_view> followers,
               bool ending) {
    const Match begins = literal(text, tag);
    if (begins != Match::yes) return begins;
    const std::string_view rest = text.substr(tag.size());
    const std::size_t white = white_bytes(rest);
    if (white > white_limit) return Match::no;
    Match best = Match::no;
    for (const std::string_view follower : followers)
        best = std::max(best, literal(rest.substr(white), follower));
    return best == Match::maybe && ending ? Match::yes : best;
}

}  // namespace

Match literal(std::string_view text, std::string_view marker) {
    if (text.starts_with(marker)) return Match::yes;
    return marker.starts_with(text) ? Match::maybe : Match::no;
}

Header function(std::string_view text) { return named(text, "<function="); }
Header parameter(std::string_view text) { return named(text, "<parameter="); }

Header wrapped_call(std::string_view text) {
    constexpr std::string_view tag = "<tool_call>";
    const Match begins = literal(text, tag);
    if (begins != Match::yes) return {begins};
    const std::string_view rest = text.substr(tag.size());
    const std::size_t white = white_bytes(rest);
    if (white > white_limit) return {};
    Header header = function(rest.substr(white));
    header.bytes += tag.size() + white;
    return header;
}

Header naked_call(std::string_view text) {
    Header header = function(text);
    if (header.match != Match::yes) return header;
    const std::string_view rest = text.substr(header.bytes);
    const std::size_t white = white_bytes(rest);
    if (white > white_limit) return {};
    const std::string_view next = rest.substr(white);
    header.match = std::max(literal(next, "<parameter="), literal(next, "</function>"));
    return header;
}

Match value_close(std::string_view text, bool ending) {
    return followed(text, "</parameter>", {"<parameter=", "</function>", "</tool_call>"}, ending);
}
Match function_close(std::string_view text, bool ending) {
    return followed(text, "</function>", {"</tool_call>"}, ending);
}
Match call_close(std::string_view text, bool ending) {
    return followed(text, "</tool_call>", {"<tool_call>"}, ending);
}

void Lines::pass(std::string_view text) {
    for (const char c : text) {
        if (c == '\n') {
            blank_ = true;
            ticks_ = 0;
            ticking_ = false;
        } else if (c == '`' && (blank_ || ticking_)) {
            blank_ = false;
            ticking_ = true;
            if (++ticks_ == 3) fenced_ = !fenced_;
        } else if (c != ' ' && c != '\t' && c != '\r') {
            blank_ = false;
            ticking_ = false;
        } else {
            ticking_ = false;
        }
        last_ = c;
    }
}

}  // namespace kapitsa::markers

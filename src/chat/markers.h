// The markup of Qwen's XML calls, recognised at the front of a text that may not be whole yet:
//   <tool_call>\n<function=NAME>\n<parameter=KEY>\nVALUE\n</parameter>\n</function>\n</tool_call>
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace kapitsa::markers {

enum class Match { no, maybe, yes };  // maybe: more text will tell

/// White space between two tags, and the bytes of a name: past these it is no markup. They bound every wait.
inline constexpr std::size_t white_limit = 256, name_limit = 256;

struct Header {
    Match match = Match::no;
    std::size_t bytes = 0;  // of the markup, when it matches
    std::string name = {};
};

Match literal(std::string_view text, std::string_view marker);
Header function(std::string_view text);      // <function=NAME>
Header parameter(std::string_view text);     // <parameter=KEY>
Header wrapped_call(std::string_view text);  // <tool_call> <function=NAME>
/// <function=NAME> with a parameter or its end behind it, which are not part of the match.
Header naked_call(std::string_view text);

// Ends of a value, told by what follows. At the end of the answer nothing has to follow.
Match value_close(std::string_view text, bool ending);     // </parameter>, then a tag of the call
Match function_close(std::string_view text, bool ending);  // </function>, then </tool_call>
Match call_close(std::string_view text, bool ending);      // </tool_call>, then another call or nothing

/// Follows text line by line: where a line begins, and what is inside a fenced block of code.
class Lines {
public:
    void pass(std::string_view text);
    bool at_line_begin() const { return blank_; }
    bool in_code() const { return fenced_; }
    bool after_backtick() const { return last_ == '`'; }

private:
    bool blank_ = true;  // nothing but spaces on this line so far
    bool ticking_ = false;
    unsigned ticks_ = 0;  // at the beginning of this line
    bool fenced_ = false;
    char last_ = '\n';
};

}  // namespace kapitsa::markers

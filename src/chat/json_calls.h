// Calls written as a JSON list: <TOOLCALL>[{"name": NAME, "arguments": {...}}, ...]</TOOLCALL>
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chat/conversation.h"

namespace kapitsa::json_calls {

inline constexpr std::string_view open = "<TOOLCALL>", close = "</TOOLCALL>";

/// Follows the text of one JSON list to its end, whatever its strings hold. Judges brackets alone.
class ListEnd {
public:
    /// How many bytes of `text` belong to the list. All of them, unless it ends or is none.
    std::size_t pass(std::string_view text);
    bool whole() const { return begun_ && depth_ == 0; }
    bool failed() const { return failed_; }  // something else than white space and a list began

private:
    bool begun_ = false, failed_ = false, in_string_ = false, escaped_ = false;
    std::size_t depth_ = 0;
};

/// The calls of a list; nothing where it is not one of calls. Arguments may be an object, the JSON text of
/// one in a string, or absent.
std::optional<std::vector<ToolCall>> parse(std::string_view list);

}  // namespace kapitsa::json_calls

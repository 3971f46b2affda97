// Words of a file inside a message for people: cut to a length, control characters shown, never raw.
#pragma once

#include <string>
#include <string_view>

namespace kapitsa {

/// `text` in double quotes. At most 96 bytes of it (then "..."); control characters and bytes that are not
/// UTF-8 become "?": a name in a file must not move the cursor of whoever reads the message.
std::string in_quotes(std::string_view text);

}  // namespace kapitsa

// What is asked by a command line: its words, and text that comes through a pipe.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace kapitsa {

/// Nothing but spaces, tabs and ends of lines.
bool is_blank(std::string_view text);

/// The words, an empty line, and what `input` (a descriptor: a pipe, a file) has until its end; either may be
/// missing. A terminal is not read where there are words. Refused with a sentence: blanks alone, what is not
/// UTF-8, more than 16 MiB.
Result<std::string> read_question(const std::optional<std::string>& words, int input);

}  // namespace kapitsa

// Whether a stream is a terminal, and one that is to be written to in colours.
#pragma once

#include <cstdio>

namespace kapitsa {

bool is_terminal(std::FILE* stream);

/// Colours, dim text and the like: on terminals that understand them, unless the person has said no
/// (no-color.org: $NO_COLOR, set to anything but nothing).
bool shows_colour(std::FILE* stream);

}  // namespace kapitsa

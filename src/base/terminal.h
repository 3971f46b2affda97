// Whether a stream is a terminal, what it understands, and whether a person wants it in colours.
#pragma once

#include <cstdio>

namespace kapitsa {

bool is_terminal(std::FILE* stream);

/// A terminal that obeys escape sequences: $TERM is set, and not to "dumb".
bool obeys_escapes(std::FILE* stream);

/// Colours, dim text and the like: where they are obeyed, unless the person has said no (no-color.org:
/// $NO_COLOR, set to anything but nothing).
bool shows_colour(std::FILE* stream);

}  // namespace kapitsa

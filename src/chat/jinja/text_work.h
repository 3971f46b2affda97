// What filters and methods on text share. All of it keeps provenance.
#pragma once

#include "chat/jinja/callable.h"
#include "chat/jinja/characters.h"
#include "chat/jinja/print.h"

namespace kapitsa::jinja {

enum class Side { left, right, both };

/// Without characters of `set` (white space, if null) at its ends.
Text strip(const Text& text, const Text* set, Side side);
/// Each character through `change`, in order.
Result<Text> map_characters(Budget& budget, const Text& text,
                            const std::function<char32_t(char32_t)>& change);
Result<Text> capitalize(Budget& budget, const Text& text);
/// At most `count` times, from the left; all if negative.
Result<Text> replace(Budget& budget, const Text& text, const Text& old, const Text& fresh,
                     std::int64_t count);
std::vector<Text> split_lines(const Text& text, bool keep_ends);
Result<Text> join(Budget& budget, const Text& separator, const std::vector<Text>& parts);

}  // namespace kapitsa::jinja

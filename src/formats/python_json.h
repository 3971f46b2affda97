// What Python's json module writes and JSON does not have: the bare words Infinity, -Infinity and NaN.
// Published config.json files hold them ("time_step_limit": [0.0, Infinity]).
#pragma once

#include <string>
#include <string_view>

namespace kapitsa {

/// `text` with those words, outside of strings, replaced by null: "no number". Nothing else changes.
std::string without_python_words(std::string_view text);

}  // namespace kapitsa

// UTF-8, checked. Sources: RFC 3629, and the Unicode Standard's table of well-formed byte sequences.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace kapitsa {

/// Length in bytes of the longest prefix that is well-formed UTF-8.
std::size_t valid_utf8_prefix(std::string_view text);
inline bool is_utf8(std::string_view text) { return valid_utf8_prefix(text) == text.size(); }

/// What of `text` need not wait: everything but the first bytes of a character that later bytes may still
/// finish. An ill-formed sequence does not wait; it can never become a character.
std::string_view complete_utf8(std::string_view text);

/// `text` with each ill-formed sequence replaced by U+FFFD (one a maximal subpart, as browsers do).
std::string repair_utf8(std::string_view text);

/// Appends the code point as UTF-8. Surrogates and values past U+10FFFF become U+FFFD.
void append_utf8(std::string& text, char32_t code_point);

}  // namespace kapitsa

// Code points and their classes, as Python's str methods see them. Input is valid UTF-8.
#pragma once

#include <cstddef>
#include <string_view>

namespace kapitsa::jinja {

/// Bytes of the character at `at`, which must be the first of one.
inline std::size_t character_bytes(std::string_view text, std::size_t at) {
    const auto lead = static_cast<unsigned char>(text[at]);
    const std::size_t bytes = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    return at + bytes <= text.size() ? bytes : text.size() - at;
}
char32_t character_at(std::string_view text, std::size_t at);
/// Where the character that ends at `end` begins.
inline std::size_t character_before(std::string_view text, std::size_t end) {
    do --end;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80);
    return end;
}
std::size_t count_characters(std::string_view text);

bool is_space(char32_t c);
bool is_letter(char32_t c);
bool is_decimal(char32_t c);
bool is_upper(char32_t c);
bool is_lower(char32_t c);
bool is_printable(char32_t c);
bool is_line_end(char32_t c);
char32_t to_upper(char32_t c);
char32_t to_lower(char32_t c);

/// The text without white space in front, or behind.
std::string_view skip_space(std::string_view text);
std::string_view drop_space(std::string_view text);

}  // namespace kapitsa::jinja

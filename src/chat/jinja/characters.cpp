// Classes come from utf8proc; white space and line ends are Python's own lists (str.isspace, splitlines).
#include "chat/jinja/characters.h"

#include <utf8proc.h>

namespace kapitsa::jinja {

char32_t character_at(std::string_view text, std::size_t at) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
    switch (character_bytes(text, at)) {
        case 1: return byte(0);
        case 2: return char32_t(byte(0) & 0x1F) << 6 | (byte(1) & 0x3F);
        case 3: return char32_t(byte(0) & 0x0F) << 12 | char32_t(byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
        default:
            return char32_t(byte(0) & 0x07) << 18 | char32_t(byte(1) & 0x3F) << 12 |
                   char32_t(byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
    }
}

std::size_t count_characters(std::string_view text) {
    std::size_t characters = 0;
    for (const char c : text) characters += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    return characters;
}

bool is_space(char32_t c) {
    if (c < 0x80) return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20);
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
           c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_line_end(char32_t c) {
    return (c >= 10 && c <= 13) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

namespace {
utf8proc_category_t category(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }
}  // namespace

bool is_letter(char32_t c) {
    const auto kind = category(c);
    return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}
bool is_decimal(char32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }
bool is_upper(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LU; }
bool is_lower(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LL; }
bool is_printable(char32_t c) {
    if (c < 0x80) return c >= 0x20 && c < 0x7F;
    const auto kind = category(c);
    return kind != UTF8PROC_CATEGORY_CN && (kind < UTF8PROC_CATEGORY_ZS || kind > UTF8PROC_CATEGORY_CO);
}
char32_t to_upper(char32_t c) {
    if (c < 0x80) return c >= 'a' && c <= 'z' ? c - 32 : c;
    return static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c)));
}
char32_t to_lower(char32_t c) {
    if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + 32 : c;
    return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

std::string_view skip_space(std::string_view text) {
    while (!text.empty() && is_space(character_at(text, 0))) text.remove_prefix(character_bytes(text, 0));
    return text;
}

std::string_view drop_space(std::string_view text) {
    while (!text.empty()) {
        const std::size_t last = character_before(text, text.size());
        if (!is_space(character_at(text, last))) break;
        text = text.substr(0, last);
    }
    return text;
}

}  // namespace kapitsa::jinja

// Source: the Python language reference, string and bytes literals. \N{...} is refused: it needs a table of
// names.
#include "chat/jinja/escapes.h"

#include <charconv>

#include "base/utf8.h"

namespace kapitsa::jinja {

namespace {

Result<char32_t> code_point(std::string_view literal, std::size_t at, std::size_t digits) {
    std::uint32_t value = 0;
    const char* begin = literal.data() + at;
    if (literal.size() - at < digits) return fail(Fault::invalid_input, "an escape is cut short");
    const auto read = std::from_chars(begin, begin + digits, value, 16);
    if (read.ec != std::errc() || read.ptr != begin + digits)
        return fail(Fault::invalid_input, "an escape without its hexadecimal digits");
    if (value > 0x10FFFF || (value >= 0xD800 && value < 0xE000))
        return fail(Fault::invalid_input, "an escape of what is no character");
    return static_cast<char32_t>(value);
}

/// Appends the octal escape at `at`; its bytes.
std::size_t octal(std::string& to, std::string_view literal, std::size_t at) {
    char32_t value = 0;
    std::size_t digits = 0;
    while (digits < 3 && at + digits < literal.size() && literal[at + digits] >= '0' &&
           literal[at + digits] <= '7')
        value = value * 8 + static_cast<char32_t>(literal[at + digits++] - '0');
    append_utf8(to, value);
    return digits;
}

}  // namespace

Result<std::string> unescape(std::string_view literal) {
    static constexpr std::string_view letters = "abfnrtv\\'\"", meanings = "\a\b\f\n\r\t\v\\'\"";
    std::string out;
    out.reserve(literal.size());
    for (std::size_t at = 0; at < literal.size(); ++at) {
        if (literal[at] != '\\' || at + 1 == literal.size()) {
            out += literal[at];
            continue;
        }
        const char c = literal[++at];
        if (const auto simple = letters.find(c); simple != letters.npos) {
            out += meanings[simple];
        } else if (c == '\n') {
            continue;
        } else if (c == 'x' || c == 'u' || c == 'U') {
            const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
            append_utf8(out, TRY(code_point(literal, at + 1, digits)));
            at += digits;
        } else if (c >= '0' && c <= '7') {
            at += octal(out, literal, at) - 1;
        } else if (c == 'N') {
            return fail(Fault::unsupported, "escapes by the name of a character are not supported");
        } else {
            (out += '\\') += c;
        }
    }
    return out;
}

}  // namespace kapitsa::jinja

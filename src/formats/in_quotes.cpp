#include "formats/in_quotes.h"

#include "base/utf8.h"

namespace kapitsa {

std::string in_quotes(std::string_view text) {
    constexpr std::size_t shown_bytes = 96;
    const bool cut = text.size() > shown_bytes;
    std::string shown(cut ? complete_utf8(text.substr(0, shown_bytes)) : text);
    for (char& c : shown)
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
    for (std::size_t at = 0; (at += valid_utf8_prefix(std::string_view(shown).substr(at))) < shown.size();)
        shown[at] = '?';
    return '"' + shown + (cut ? "...\"" : "\"");
}

}  // namespace kapitsa

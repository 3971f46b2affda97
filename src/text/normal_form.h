// Unicode normal form C of text that is UTF-8. Text that is already in it, which nearly all text is, costs
// one look at each character.
#pragma once

#include <cstddef>
#include <string_view>

#include "text/marked_text.h"

namespace kapitsa {

/// Length of a prefix that NFC leaves alone whatever follows in the text; the whole of most texts.
std::size_t nfc_prefix(std::string_view text);

/// NFC of the text. A character made of plain and other characters is plain.
MarkedText to_nfc(const MarkedText& marked);

}  // namespace kapitsa

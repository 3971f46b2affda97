#include "formats/byte_level.h"

#include <array>
#include <cstdint>

#include "base/utf8.h"

namespace kapitsa {
namespace {

/// U+0100 and on stand for the bytes that do not print.
struct ByteLevelAlphabet {
    std::array<std::int16_t, 0x144> byte_of;  // by code point; -1 where the code point stands for no byte

    ByteLevelAlphabet() {
        byte_of.fill(-1);
        int stand_in = 0x100;
        for (int byte = 0; byte < 256; ++byte) {
            const bool prints =
                (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
            byte_of[static_cast<std::size_t>(prints ? byte : stand_in++)] = static_cast<std::int16_t>(byte);
        }
    }
};

}  // namespace

std::string undo_stand_ins(std::string&& text) {
    static const ByteLevelAlphabet alphabet;
    if (!is_utf8(text)) return std::move(text);
    std::string bytes;
    bytes.reserve(text.size());
    for (std::size_t at = 0; at < text.size();) {
        const auto lead = static_cast<unsigned char>(text[at]);
        std::size_t code_point = lead;
        if (lead >= 0xE0) return std::move(text);  // past U+07FF: no stand-in
        if (lead >= 0x80)
            code_point = (lead & 0x1Fu) << 6 | (static_cast<unsigned char>(text[at + 1]) & 0x3Fu);
        if (code_point >= alphabet.byte_of.size() || alphabet.byte_of[code_point] < 0) return std::move(text);
        bytes += static_cast<char>(alphabet.byte_of[code_point]);
        at += lead >= 0x80 ? 2 : 1;
    }
    return bytes;
}

}  // namespace kapitsa

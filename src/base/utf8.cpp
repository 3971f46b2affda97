#include "base/utf8.h"

namespace kapitsa {
namespace {

struct Sequence {
    std::size_t bytes;  // read: the whole character, or the maximal subpart of an ill-formed one
    enum class Kind { whole, cut_short, broken } kind;
};

/// Reads one sequence at the start of a non-empty text.
Sequence read(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char lead = byte(0);
    if (lead < 0x80) return {1, Sequence::Kind::whole};
    if (lead < 0xC2 || lead > 0xF4) return {1, Sequence::Kind::broken};
    const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    for (std::size_t i = 1; i < length; ++i) {
        if (i == text.size()) return {i, Sequence::Kind::cut_short};
        unsigned char least = 0x80, most = 0xBF;
        if (i == 1) {  // no overlong forms, no surrogates, nothing past U+10FFFF
            if (lead == 0xE0) least = 0xA0;
            if (lead == 0xED) most = 0x9F;
            if (lead == 0xF0) least = 0x90;
            if (lead == 0xF4) most = 0x8F;
        }
        if (byte(i) < least || byte(i) > most) return {i, Sequence::Kind::broken};
    }
    return {length, Sequence::Kind::whole};
}

}  // namespace

std::size_t valid_utf8_prefix(std::string_view text) {
    std::size_t at = 0;
    while (at < text.size()) {
        const Sequence sequence = read(text.substr(at));
        if (sequence.kind != Sequence::Kind::whole) return at;
        at += sequence.bytes;
    }
    return at;
}

std::string_view complete_utf8(std::string_view text) {
    for (std::size_t back = 1; back <= 3 && back <= text.size(); ++back) {
        const std::string_view tail = text.substr(text.size() - back);
        if ((static_cast<unsigned char>(tail[0]) & 0xC0) == 0x80) continue;
        const bool waits = read(tail).kind == Sequence::Kind::cut_short;
        return text.substr(0, text.size() - (waits ? back : 0));
    }
    return text;
}

std::string repair_utf8(std::string_view text) {
    std::string repaired;
    repaired.reserve(text.size());
    while (!text.empty()) {
        const Sequence sequence = read(text);
        if (sequence.kind == Sequence::Kind::whole)
            repaired.append(text.substr(0, sequence.bytes));
        else
            repaired.append("\xEF\xBF\xBD");
        text.remove_prefix(sequence.bytes);
    }
    return repaired;
}

void append_utf8(std::string& text, char32_t code_point) {
    if (code_point > 0x10FFFF || (code_point >= 0xD800 && code_point <= 0xDFFF)) code_point = 0xFFFD;
    if (code_point < 0x80) {
        text += static_cast<char>(code_point);
    } else if (code_point < 0x800) {
        text += static_cast<char>(0xC0 | (code_point >> 6));
        text += static_cast<char>(0x80 | (code_point & 0x3F));
    } else if (code_point < 0x10000) {
        text += static_cast<char>(0xE0 | (code_point >> 12));
        text += static_cast<char>(0x80 | ((code_point >> 6) & 0x3F));
        text += static_cast<char>(0x80 | (code_point & 0x3F));
    } else {
        text += static_cast<char>(0xF0 | (code_point >> 18));
        text += static_cast<char>(0x80 | ((code_point >> 12) & 0x3F));
        text += static_cast<char>(0x80 | ((code_point >> 6) & 0x3F));
        text += static_cast<char>(0x80 | (code_point & 0x3F));
    }
}

}  // namespace kapitsa

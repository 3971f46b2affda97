// Any bytes through the built-in tokenizer: as plain text they come back as the NFC of their repaired form,
// whole and in pieces, without one control token; as a mixture of plain and control text they come back too.
// The first byte chooses how the rest is marked.

#include <cstdint>
#include <string>

#include "base/check.h"
#include "base/utf8.h"
#include "support/built_in_tokenizer.h"
#include "text/detokenizer.h"
#include "text/normal_form.h"

namespace {

using namespace kapitsa;

std::string bytes_of(const Tokenizer& tokenizer, const std::vector<Token>& tokens) {
    std::string bytes;
    for (const Token token : tokens) bytes += tokenizer.piece(token);
    return bytes;
}

std::string streamed(const Tokenizer& tokenizer, const std::vector<Token>& tokens) {
    Detokenizer detokenizer(tokenizer);
    std::string text;
    for (const Token token : tokens) {
        const std::string piece = detokenizer.push(token);
        CHECK(is_utf8(piece));
        text += piece;
    }
    return text + detokenizer.finish();
}

void check_plain(const Tokenizer& tokenizer, const std::string& text) {
    const std::vector<Token> tokens = tokenizer.encode(MarkedText::all_plain(text));
    const std::string expected = to_nfc(MarkedText::all_plain(repair_utf8(text))).text;
    CHECK(bytes_of(tokenizer, tokens) == expected);
    CHECK(streamed(tokenizer, tokens) == expected);
    for (const Token token : tokens) CHECK(!tokenizer.is_special(token));
}

/// Stretches of `mark % 16 + 1` bytes, every other one plain.
void check_mixed(const Tokenizer& tokenizer, const std::string& text, std::size_t mark) {
    MarkedText marked;
    const std::size_t stretch = mark % 16 + 1;
    for (std::size_t at = 0; at < text.size(); at += stretch)
        marked.append(std::string_view(text).substr(at, stretch), at / stretch % 2 == mark / 16 % 2);
    const std::string bytes = bytes_of(tokenizer, tokenizer.encode(marked));
    // A control token is a border that NFC does not cross, so the tokens' text may only be normal after NFC.
    const auto normal = [](std::string some) { return to_nfc(MarkedText::all_plain(std::move(some))).text; };
    CHECK(normal(bytes) == normal(repair_utf8(text)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
    check_plain(built_in_tokenizer(), text);
    check_mixed(built_in_tokenizer(), text, data[0]);
    return 0;
}

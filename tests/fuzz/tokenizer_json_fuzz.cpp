// Any bytes as a tokenizer.json: it is refused with a reason, or it makes a tokenizer that encodes every text
// and gives it back, or it is refused as a description.

#include <cstdint>
#include <string>

#include "base/check.h"
#include "base/utf8.h"
#include "text/normal_form.h"
#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace kapitsa;
    auto description = read_tokenizer_json({reinterpret_cast<const char*>(data), size});
    if (!description) {
        CHECK(!description.error().message.empty());
        return 0;
    }
    for (const AddedToken& added : description->added)
        if (added.left_strip || added.right_strip) return 0;  // these lose white space, as they should
    const bool nfc = description->nfc;
    // Few inputs have a vocabulary of all bytes: it is given to them, so that their regexes are tried as
    // well.
    if (description->pieces.size() < 1000 && description->added.empty()) {
        description->pieces.clear();
        description->merges.clear();
        for (int byte = 0; byte < 256; ++byte) description->pieces.emplace_back(1, static_cast<char>(byte));
    }
    const auto tokenizer = Tokenizer::make(std::move(*description));
    if (!tokenizer) {
        CHECK(!tokenizer.error().message.empty());
        return 0;
    }
    const std::string text = "Don't stop  12\n\n e\u0301 \u1112\u1161 <|im_end|>中文\t x";
    std::string bytes;
    for (const Token token : tokenizer->encode(MarkedText::all_plain(text))) bytes += tokenizer->piece(token);
    CHECK(bytes == (nfc ? to_nfc(MarkedText::all_plain(text)).text : text));
    return 0;
}

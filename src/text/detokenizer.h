// Tokens to text as they come. Every piece that leaves is whole UTF-8; the bytes of a character that later
// tokens will finish are held back. The pieces together are the whole, with what never became UTF-8 as
// U+FFFD.
#pragma once

#include <string>

#include "text/tokenizer.h"

namespace kapitsa {

class Detokenizer {
public:
    /// `tokenizer` must outlive this.
    explicit Detokenizer(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}

    /// The text that this token completes; often one piece, sometimes none. Special tokens add nothing.
    std::string push(Token token);
    /// What was held back when the answer ended.
    std::string finish();

private:
    const Tokenizer* tokenizer_;
    std::string held_;
};

}  // namespace kapitsa

// Tokens come from the sampler, which may choose any: what they never finish leaves as U+FFFD.
#include "text/detokenizer.h"

#include "base/utf8.h"

namespace kapitsa {

std::string Detokenizer::push(Token token) {
    if (tokenizer_->is_special(token)) return {};
    held_ += tokenizer_->piece(token);
    const std::size_t complete = complete_utf8(held_).size();
    std::string piece = repair_utf8(std::string_view(held_).substr(0, complete));
    held_.erase(0, complete);
    return piece;
}

std::string Detokenizer::finish() {
    std::string piece = repair_utf8(held_);
    held_.clear();
    return piece;
}

}  // namespace kapitsa

// The tokenizer in the metadata of a GGUF file (tokenizer.ggml.*), in the words of TokenizerDescription.
// Source: the format's own description, and the tokenizer.json files that the names stand for.
#pragma once

#include "base/result.h"
#include "formats/gguf.h"
#include "formats/tokenizer_description.h"

namespace kapitsa {

/// Byte-level BPE alone ("gpt2"). `tokenizer.ggml.pre` names the regex, which the file does not hold; a name
/// that is not known is refused with the list of those that are, since a guess would give other tokens than
/// the model was trained on.
Result<TokenizerDescription> read_gguf_tokenizer(const Gguf& gguf);

/// The ids under which a file names a token ("eos", "bos", ...), those of its key and its older spellings.
/// Fault::corrupt_file where the id is no token of the vocabulary.
Result<std::optional<Token>> gguf_token(const Gguf& gguf, std::string_view name);

/// The text of a token; "" where there is none.
std::string gguf_token_text(const Gguf& gguf, Token token);

}  // namespace kapitsa

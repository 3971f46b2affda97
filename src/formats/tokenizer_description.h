// What a tokenizer file says, in words that no format owns: tokenizer.json and GGUF metadata both become
// this.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace kapitsa {

struct AddedToken {
    Token id = 0;
    std::string content;
    bool special = false;  // dropped from the text of an answer; `<think>` and its like are not
    bool left_strip = false, right_strip = false, single_word = false, normalized = false;
};

/// A byte-level BPE vocabulary and how text is cut before it. Pieces are raw bytes: the printable stand-ins
/// of the files ("Ġ" for a space) are undone by the reader.
struct TokenizerDescription {
    std::vector<std::string> pieces;                          // by token id; "" where no token has that id
    std::vector<std::pair<std::string, std::string>> merges;  // by rank, the first merges first
    std::vector<std::string> split_patterns;                  // regexes applied in turn, matches isolated
    std::vector<AddedToken> added;
    std::optional<Token> first;  // put before a text that stands by itself, which no chat template wrote
    bool nfc = false;
    bool ignore_merges = false;  // a word that is a token itself is taken whole
};

/// Reads the text of a tokenizer.json. Refuses what it does not understand (another model than BPE, another
/// normalizer, an unknown pre-tokenizer) with the name of the field. Bounded: at most 2^22 tokens and merges,
/// pieces of at most 64 KiB.
Result<TokenizerDescription> read_tokenizer_json(std::string_view text);

}  // namespace kapitsa

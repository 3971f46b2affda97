// What byte-level vocabularies share, whichever file they come in: GPT-2's printable stand-ins for bytes.
#pragma once

#include <string>
#include <string_view>

namespace kapitsa {

/// The bytes that a piece of a file stands for ("Ġ" is a space). A piece with a character outside the
/// alphabet, or that is not UTF-8, stands for itself, as in the decoder of the tokenizers library.
std::string undo_stand_ins(std::string&& text);

/// GPT-2's own regex, for files that cut with it and do not say it.
inline constexpr std::string_view gpt2_pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

}  // namespace kapitsa

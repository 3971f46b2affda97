// The texts that models are compared over, and what each model's tokenizer makes of them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "check/reading.h"
#include "formats/checkpoint.h"

namespace kapitsa {

struct CheckText {
    std::string name, text;
};

/// The files of a folder, by name; "" is the folder that stands beside the built-in model.
Result<std::vector<CheckText>> check_texts(const std::string& folder);

/// At most `most` tokens of each. What the tokens of a template look like in a text is text here.
/// @param vocabulary of the model: no token may be beyond it
Result<std::vector<TextTokens>> tokenized(const std::vector<CheckText>& texts, const Checkpoint& checkpoint,
                                          std::uint64_t most, std::uint32_t vocabulary);

/// Fault::invalid_input with both models' names where their tokens differ.
Status expect_same_tokens(const std::vector<TextTokens>& of_one, const std::vector<TextTokens>& of_other,
                          std::string_view one, std::string_view other);

}  // namespace kapitsa

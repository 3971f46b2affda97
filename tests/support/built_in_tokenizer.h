// For tests: the tokenizer of the built-in model, and small ones made by hand.
#pragma once

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "text/tokenizer.h"

namespace kapitsa {

inline std::string file_contents(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return std::move(text).str();
}

inline TokenizerDescription built_in_description() {
    auto description = read_tokenizer_json(file_contents(KAPITSA_SOURCE_DIR "/models/tiny/tokenizer.json"));
    CHECK(description.has_value());
    return std::move(*description);
}

inline const Tokenizer& built_in_tokenizer() {
    static const Tokenizer tokenizer = [] {
        auto made = Tokenizer::make(built_in_description());
        CHECK(made.has_value());
        return std::move(*made);
    }();
    return tokenizer;
}

/// A vocabulary of all bytes, with what the merges make after them, in their order.
inline TokenizerDescription description_of(std::vector<std::pair<std::string, std::string>> merges) {
    TokenizerDescription description;
    for (int byte = 0; byte < 256; ++byte) description.pieces.emplace_back(1, static_cast<char>(byte));
    for (const auto& [left, right] : merges) {
        const std::string made = left + right;
        if (std::find(description.pieces.begin(), description.pieces.end(), made) == description.pieces.end())
            description.pieces.push_back(made);
    }
    description.merges = std::move(merges);
    return description;
}

}  // namespace kapitsa

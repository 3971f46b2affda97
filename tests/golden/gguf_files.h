// What tests of GGUF files ask of them.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "golden/model_case.h"
#include "model/gguf_dialect.h"
#include "support/checkpoint_writer.h"
#include "support/gguf_writer.h"

namespace kapitsa {

/// A prompt's worth of tokens that every golden model has, and a few one by one: the path of few rows.
inline Logits logits_of(const std::string& path) {
    ModelCase model(path);
    auto sequence = model.begin(0);
    std::vector<Token> prompt;
    for (Token i = 0; i < 65; ++i) prompt.push_back((i * 37 + 11) % 191);
    Logits logits = model.chain(sequence, prompt);
    for (const Token token : {3, 141, 59}) {
        const Logits row = model.chain(sequence, {token});
        logits.insert(logits.end(), row.begin(), row.end());
    }
    return logits;
}

/// What opening the file and loading a model from it says.
inline std::string refusal(const GgufWriter& writer) {
    const TemporaryFolder folder;
    writer.write(folder.path() + "/model.gguf");
    const auto checkpoint = open_model(folder.path() + "/model.gguf");
    if (!checkpoint) return checkpoint.error().message;
    const auto runner = load_runner(*checkpoint);
    return runner ? "loaded" : runner.error().message;
}

inline void expect_in(const std::string& part, const std::string& text) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

}  // namespace kapitsa

#include "formats/gguf_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "base/check.h"
#include "support/built_in_tokenizer.h"
#include "support/gguf_writer.h"

namespace kapitsa {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Result<TokenizerDescription> description_in(const GgufWriter& writer) {
    const std::string bytes = writer.bytes();
    const auto gguf = read_gguf(as_bytes(bytes));
    CHECK(gguf.has_value());
    return read_gguf_tokenizer(*gguf);
}

std::vector<Token> encoded(const Tokenizer& tokenizer, std::string text) {
    return tokenizer.encode(MarkedText::all_control(std::move(text)));
}

/// Texts of every script, with control tokens, and bytes that are no text.
std::vector<std::string> corpus() {
    std::vector<std::string> texts;
    for (const auto& prompt :
         nlohmann::json::parse(file_contents(KAPITSA_SOURCE_DIR "/tests/data/tokenizer/prompts.json")))
        texts.push_back(prompt["prompt"]);
    for (const auto& file :
         std::filesystem::directory_iterator(KAPITSA_SOURCE_DIR "/tests/fuzz/corpus/tokenizer"))
        texts.push_back(file_contents(file.path().string()));
    std::mt19937 random(7);
    for (int i = 0; i < 200; ++i) {
        std::string text;
        for (int c = 0; c < 60; ++c) text += char(random() % 256);
        texts.push_back(std::move(text));
    }
    return texts;
}

TEST(GgufTokenizer, GivesTheTokensOfTheTokenizerJsonItWasMadeFrom) {
    GgufWriter writer;
    add_tokenizer(writer, built_in_description(), "qwen35");
    auto description = description_in(writer);
    ASSERT_TRUE(description) << description.error().message;
    auto made = Tokenizer::make(std::move(*description));
    ASSERT_TRUE(made) << made.error().message;
    const Tokenizer &theirs = *made, &ours = built_in_tokenizer();
    for (const std::string& text : corpus()) ASSERT_EQ(encoded(theirs, text), encoded(ours, text)) << text;
    ASSERT_EQ(theirs.vocabulary(), ours.vocabulary());
    for (Token token = 0; token < Token(ours.vocabulary()); ++token) {
        ASSERT_EQ(theirs.piece(token), ours.piece(token));
        ASSERT_EQ(theirs.is_special(token), ours.is_special(token)) << ours.piece(token);
    }
}

TEST(GgufTokenizer, EveryWayToCutWordsIsOneThatTheTokenizerTakes) {
    for (const char* pre : {"qwen35", "qwen2", "llama-bpe", "llama3", "tekken", "pixtral", "gpt-2"}) {
        GgufWriter writer;
        add_tokenizer(writer, description_of({}), pre);
        const auto tokenizer = Tokenizer::make(*description_in(writer));
        ASSERT_TRUE(tokenizer) << pre << ": " << tokenizer.error().message;
        EXPECT_THAT(encoded(*tokenizer, "a 1"), ElementsAre('a', ' ', '1'));
    }
}

TEST(GgufTokenizer, AnUnknownWayToCutWordsIsRefusedWithThoseThatAreKnown) {
    GgufWriter writer;
    add_tokenizer(writer, description_of({}), "smaug-bpe");
    const auto refused = description_in(writer);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().fault, Fault::unsupported);
    EXPECT_THAT(refused.error().message,
                HasSubstr("metadata \"tokenizer.ggml.pre\" is \"smaug-bpe\"; text is cut into words in the "
                          "ways of qwen35, qwen2, "));
    writer.remove("tokenizer.ggml.pre");
    EXPECT_THAT(description_in(writer).error().message, HasSubstr("is missing"));
    writer.text("tokenizer.ggml.model", "llama");
    EXPECT_THAT(description_in(writer).error().message,
                HasSubstr("metadata \"tokenizer.ggml.model\" is \"llama\"; gpt2"));
}

TEST(GgufTokenizer, TheTypeOfATokenSaysWhatItIs) {
    GgufWriter writer;
    writer.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "gpt-2");
    writer.texts("tokenizer.ggml.tokens", {"a", "<unk>", "<end>", "<think>", "[PAD4]", "Ġ"});
    writer.numbers("tokenizer.ggml.token_type", {1, 2, 3, 4, 5, 1}).texts("tokenizer.ggml.merges", {});
    const auto description = description_in(writer);
    ASSERT_TRUE(description) << description.error().message;
    EXPECT_THAT(description->pieces, ElementsAre("a", "", "", "", "", " "));
    ASSERT_EQ(description->added.size(), 3u);
    EXPECT_TRUE(description->added[0].special);
    EXPECT_TRUE(description->added[1].special);
    EXPECT_FALSE(description->added[2].special);  // it stays in the text of an answer
    EXPECT_EQ(description->added[2].content, "<think>");
}

TEST(GgufTokenizer, TextsBeginWithATokenWhereTheFileOrTheWayToCutSaysSo) {
    GgufWriter writer;
    add_tokenizer(writer, description_of({}), "tekken");
    writer.number("tokenizer.ggml.bos_token_id", 7);
    EXPECT_EQ(description_in(writer)->first, Token(7));
    writer.flag("tokenizer.ggml.add_bos_token", false);
    EXPECT_EQ(description_in(writer)->first, std::nullopt);
    add_tokenizer(writer, description_of({}), "qwen35");
    EXPECT_EQ(description_in(writer)->first, std::nullopt);
    writer.flag("tokenizer.ggml.add_bos_token", true);
    EXPECT_EQ(description_in(writer)->first, Token(7));
    writer.number("tokenizer.ggml.bos_token_id", 256);
    EXPECT_THAT(description_in(writer).error().message,
                HasSubstr("metadata \"tokenizer.ggml.bos_token_id\" is 256; the vocabulary has 256 tokens"));
}

TEST(GgufTokenizer, WhatDoesNotFitTogetherIsNamed) {
    GgufWriter good;
    add_tokenizer(good, description_of({{"a", "b"}}), "gpt-2");
    const auto refusal = [&](auto change) {
        GgufWriter writer = good;
        change(writer);
        const auto description = description_in(writer);
        return description ? std::string("read") : description.error().message;
    };
    EXPECT_EQ(refusal([](GgufWriter&) {}), "read");
    EXPECT_THAT(refusal([](GgufWriter& w) { w.remove("tokenizer.ggml.tokens"); }),
                HasSubstr("metadata \"tokenizer.ggml.tokens\" is missing"));
    EXPECT_THAT(refusal([](GgufWriter& w) { w.numbers("tokenizer.ggml.token_type", {1}); }),
                HasSubstr("metadata \"tokenizer.ggml.token_type\" is missing, or not as long"));
    EXPECT_THAT(refusal([](GgufWriter& w) {
                    w.numbers("tokenizer.ggml.token_type", std::vector<std::int32_t>(257, 9));
                }),
                HasSubstr("the type of tokenizer.ggml.tokens[0] is 9; it must be from 1 to 6"));
    EXPECT_THAT(refusal([](GgufWriter& w) { w.texts("tokenizer.ggml.merges", {"a b", "ab"}); }),
                HasSubstr("tokenizer.ggml.merges[1] is not two pieces with a space between: \"ab\""));
    EXPECT_THAT(refusal([](GgufWriter& w) { w.numbers("tokenizer.ggml.merges", {1}); }),
                HasSubstr("metadata \"tokenizer.ggml.merges\" is missing, or not a list of texts"));
}

}  // namespace
}  // namespace kapitsa

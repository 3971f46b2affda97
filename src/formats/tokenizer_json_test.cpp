#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "formats/tokenizer_description.h"

namespace kapitsa {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

std::string built_in() {
    std::ifstream file(KAPITSA_SOURCE_DIR "/models/tiny/tokenizer.json", std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return std::move(text).str();
}

/// The least that is understood; each test changes what it is about.
json small() {
    return json::parse(R"({
        "added_tokens": [{"id": 4, "content": "<end>", "special": true}],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": "\\w+"}, "behavior": "Isolated", "invert": false},
            {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]},
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "Ġ": 2, "Ġa": 3}, "merges": ["Ġ a"]}})");
}

Result<TokenizerDescription> read(const json& file) { return read_tokenizer_json(file.dump()); }

std::string refusal(const json& file) {
    const auto description = read(file);
    return description ? "it was understood" : description.error().message;
}

TEST(TokenizerJson, ReadsTheBuiltInFile) {
    const auto description = read_tokenizer_json(built_in());
    ASSERT_TRUE(description) << description.error().message;
    EXPECT_EQ(description->pieces.size(), 8165u);
    EXPECT_EQ(description->merges.size(), 7909u);
    EXPECT_EQ(description->added.size(), 27u);
    EXPECT_EQ(description->split_patterns.size(), 1u);
    EXPECT_TRUE(description->nfc);
    EXPECT_FALSE(description->ignore_merges);
    EXPECT_EQ(description->merges[0], (std::pair<std::string, std::string>(" ", " ")));
    EXPECT_EQ(description->added[2].content, "<|im_end|>");
    EXPECT_EQ(description->added[2].id, 8167);
    EXPECT_TRUE(description->added[2].special);
}

TEST(TokenizerJson, MergesAreTextsOrPairs) {
    json file = small();
    const auto texts = read(file);
    file["model"]["merges"] = json::array({json::array({"Ġ", "a"})});
    const auto pairs = read(file);
    ASSERT_TRUE(texts && pairs);
    EXPECT_THAT(texts->merges, ElementsAre(std::pair<std::string, std::string>(" ", "a")));
    EXPECT_EQ(texts->merges, pairs->merges);
    for (const json& wrong : {json("Ġa"), json("Ġ  a"), json(" a"), json("a "), json("a b c"),
                              json::array({"a"}), json::array({"a", "b", "c"}), json(1), json(nullptr),
                              json::object(), json::array({json::array({"a"}), "b"})}) {
        file["model"]["merges"] = json::array({wrong});
        EXPECT_THAT(refusal(file), HasSubstr("merge")) << wrong.dump();
    }
}

TEST(TokenizerJson, PiecesAreTheBytesThatTheirCharactersStandFor) {
    json file = small();
    file["model"]["vocab"] = {{"Ċ", 0}, {"Ā", 1},  {"ł", 2},   {"Ń", 3},
                              {"é", 4}, {"中", 5}, {"Ġ中", 6}, {"a b", 7}};
    file["model"]["merges"] = json::array();
    const auto description = read(file);
    ASSERT_TRUE(description);
    // The last three have characters that stand for no byte: they are what they are.
    EXPECT_THAT(description->pieces,
                ElementsAre("\n", std::string(1, '\0'), "\xA0", "\xAD", "\xE9", "中", "Ġ中", "a b"));
}

TEST(TokenizerJson, AByteLevelWithItsOwnRegexCutsAsGpt2Did) {
    json file = small();
    file["pre_tokenizer"] = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
    const auto description = read(file);
    ASSERT_TRUE(description) << description.error().message;
    EXPECT_THAT(description->split_patterns,
                ElementsAre(R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"));
}

TEST(TokenizerJson, ASplitAloneIsUnderstoodWhenTheDecoderIsByteLevel) {
    json file = small();
    file["pre_tokenizer"] = file["pre_tokenizer"]["pretokenizers"][0];
    ASSERT_TRUE(read(file));
    EXPECT_THAT(read(file)->split_patterns, ElementsAre("\\w+"));
    file["decoder"] = nullptr;
    EXPECT_THAT(refusal(file), HasSubstr("pre_tokenizer has no ByteLevel"));
}

TEST(TokenizerJson, OptionalPartsMayBeAbsent) {
    json file = small();
    file.erase("normalizer");
    file.erase("added_tokens");
    file["model"].erase("type");
    file["model"]["ignore_merges"] = true;
    const auto description = read(file);
    ASSERT_TRUE(description) << description.error().message;
    EXPECT_FALSE(description->nfc);
    EXPECT_TRUE(description->ignore_merges);
    EXPECT_TRUE(description->added.empty());
}

TEST(TokenizerJson, ATextBeginsWithTheTokenThatItsTemplateSays) {
    json file = small();
    EXPECT_EQ(read(file)->first, std::nullopt);
    file["post_processor"] = json::parse(R"({"type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<end>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [], "special_tokens": {"<end>": {"id": "<end>", "ids": [4], "tokens": ["<end>"]}}})");
    EXPECT_EQ(read(file)->first, Token(4));
    file["post_processor"]["special_tokens"] = json::object();
    EXPECT_THAT(refusal(file), HasSubstr("post_processor.special_tokens has not one id"));
    file["post_processor"]["single"].erase(0);
    EXPECT_EQ(read(file)->first, std::nullopt);
}

TEST(TokenizerJson, WhatIsNotUnderstoodIsNamed) {
    const struct {
        const char* place;
        json value;
        const char* named;
    } cases[] = {
        {"/model/type", "Unigram", "model.type is \"Unigram\""},
        {"/model/byte_fallback", true, "model.byte_fallback"},
        {"/model/dropout", 0.1, "model.dropout"},
        {"/model/continuing_subword_prefix", "##", "model.continuing_subword_prefix"},
        {"/model/end_of_word_suffix", "</w>", "model.end_of_word_suffix"},
        {"/model/ignore_merges", "yes", "model.ignore_merges"},
        {"/model/vocab", json::array(), "model.vocab"},
        {"/model/vocab/a", "zero", "model.vocab"},
        {"/model/vocab/a", -1, "model.vocab"},
        {"/model/vocab/a", 1, "the id 1 to two pieces"},
        {"/model/vocab/a", 4194304, "model.vocab"},
        {"/model/vocab/a", 4194303, "ids up to 4194303"},
        {"/model/merges", nullptr, "model.merges"},
        {"/model", nullptr, "model"},
        {"/normalizer", {{"type", "Lowercase"}}, "normalizer.type is \"Lowercase\""},
        {"/normalizer", "NFC", "normalizer.type"},
        {"/pre_tokenizer", nullptr, "pre_tokenizer"},
        {"/pre_tokenizer/pretokenizers/0/type", "Digits",
         "pre_tokenizer.pretokenizers[0].type is \"Digits\""},
        {"/pre_tokenizer/pretokenizers/0/behavior", "Removed", "pre_tokenizer.pretokenizers[0].behavior"},
        {"/pre_tokenizer/pretokenizers/0/invert", true, "pre_tokenizer.pretokenizers[0].invert"},
        {"/pre_tokenizer/pretokenizers/0/pattern",
         {{"String", " "}},
         "pre_tokenizer.pretokenizers[0].pattern"},
        {"/pre_tokenizer/pretokenizers/1/add_prefix_space", true,
         "pre_tokenizer.pretokenizers[1].add_prefix_space"},
        {"/pre_tokenizer/pretokenizers", 1, "pre_tokenizer.pretokenizers"},
        {"/decoder/type", "WordPiece", "decoder.type is \"WordPiece\""},
        {"/added_tokens", 1, "added_tokens"},
        {"/added_tokens/0/id", -4, "added_tokens[0].id"},
        {"/added_tokens/0/content", "", "added_tokens[0].content"},
        {"/added_tokens/0/special", 1, "added_tokens[0].special"},
        {"/added_tokens/0", "x", "added_tokens[0].content"},
    };
    for (const auto& [place, value, named] : cases) {
        json file = small();
        file[json::json_pointer(place)] = value;
        EXPECT_THAT(refusal(file), HasSubstr(named)) << place;
    }
}

TEST(TokenizerJson, AFileThatIsNoDocumentIsRefused) {
    const auto refusal_of = [](std::string_view text) {
        const auto description = read_tokenizer_json(text);
        return description ? "it was understood" : description.error().message;
    };
    EXPECT_THAT(refusal_of(""), HasSubstr("not valid JSON"));
    EXPECT_THAT(refusal_of("[]"), HasSubstr("not a JSON object"));
    EXPECT_THAT(refusal_of("{\"a\": 1, \"a\": 2}"), HasSubstr("stands twice"));
    EXPECT_THAT(refusal_of(std::string(1 << 20, '[')), HasSubstr("nested"));
    EXPECT_THAT(refusal_of("{\"model\": {\"vocab\": {}, \"vocab\": {}}}"), HasSubstr("stands twice"));
    EXPECT_THAT(refusal_of("{\"model\": {\"vocab\": {\"" + std::string(200'000, 'a') + "\": 1}}}"),
                HasSubstr("64 KiB"));
    const std::string whole = small().dump();
    for (std::size_t end = 0; end < whole.size(); ++end)
        EXPECT_THAT(refusal_of(std::string_view(whole).substr(0, end)), HasSubstr("JSON")) << end;
}

TEST(TokenizerJson, ALargeVocabularyIsReadWhole) {
    json file = small();
    json vocab = json::object(), merges = json::array();
    for (int id = 0; id < 248'320; ++id) vocab["piece" + std::to_string(id)] = id;
    for (int rank = 0; rank < 247'587; ++rank) merges.push_back({"piece" + std::to_string(rank), "b"});
    file["model"]["vocab"] = std::move(vocab);
    file["model"]["merges"] = std::move(merges);
    const auto description = read(file);
    ASSERT_TRUE(description) << description.error().message;
    EXPECT_EQ(description->pieces.size(), 248'320u);
    EXPECT_EQ(description->pieces[248'319], "piece248319");
    EXPECT_EQ(description->merges.size(), 247'587u);
}

}  // namespace
}  // namespace kapitsa

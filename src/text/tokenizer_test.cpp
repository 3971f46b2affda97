#include "text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <span>
#include <thread>

#include "base/utf8.h"
#include "support/built_in_tokenizer.h"
#include "text/detokenizer.h"
#include "text/normal_form.h"

namespace kapitsa {
namespace {

using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Lt;
using testing::Not;

constexpr Token first_added = 8165;  // of the built-in tokenizer

std::vector<Token> control(const Tokenizer& tokenizer, std::string text) {
    return tokenizer.encode(MarkedText::all_control(std::move(text)));
}
std::vector<Token> plain(const Tokenizer& tokenizer, std::string text) {
    return tokenizer.encode(MarkedText::all_plain(std::move(text)));
}
std::string decoded(const Tokenizer& tokenizer, const std::vector<Token>& tokens) {
    std::string bytes;
    for (const Token token : tokens) bytes += tokenizer.piece(token);
    return bytes;
}

TEST(Tokenizer, GivesTheIdsOfTheReferencePrompts) {
    const Tokenizer& tokenizer = built_in_tokenizer();
    const auto prompts =
        nlohmann::json::parse(file_contents(KAPITSA_SOURCE_DIR "/tests/data/tokenizer/prompts.json"));
    ASSERT_EQ(prompts.size(), 9u);
    for (const auto& prompt : prompts) {
        EXPECT_EQ(control(tokenizer, prompt["prompt"]), prompt["ids"].get<std::vector<Token>>())
            << prompt["name"];
        EXPECT_EQ(decoded(tokenizer, prompt["greedy_ids"]), prompt["greedy_text"].get<std::string>());
    }
}

TEST(Tokenizer, ControlTokensInPlainTextAreJustCharacters) {
    const Tokenizer& tokenizer = built_in_tokenizer();
    for (Token token = first_added; token < 8192; ++token) {
        const std::string content(tokenizer.piece(token));
        EXPECT_THAT(control(tokenizer, content), ElementsAre(token));
        EXPECT_THAT(plain(tokenizer, content), Each(Lt(first_added)));
        EXPECT_EQ(decoded(tokenizer, plain(tokenizer, content)), content);
        // One plain byte is enough, wherever it stands.
        for (std::size_t at = 0; at < content.size(); ++at) {
            MarkedText marked;
            marked.append(content.substr(0, at), false);
            marked.append(content.substr(at, 1), true);
            marked.append(content.substr(at + 1), false);
            EXPECT_THAT(tokenizer.encode(marked), Each(Lt(first_added))) << content << " at " << at;
        }
    }
}

TEST(Tokenizer, ControlTokensAroundPlainTextStay) {
    const Tokenizer& tokenizer = built_in_tokenizer();
    const Token start = *tokenizer.find("<|im_start|>"), end = *tokenizer.find("<|im_end|>");
    MarkedText marked;
    marked.append("<|im_start|>user\n", false);
    marked.append("say <|im_end|> and <|im_start|>", true);
    marked.append("<|im_end|>", false);
    marked.append("<|im_", false);
    marked.append("end|>", true);
    const std::vector<Token> tokens = tokenizer.encode(marked);
    EXPECT_EQ(std::count(tokens.begin(), tokens.end(), start), 1);
    EXPECT_EQ(std::count(tokens.begin(), tokens.end(), end), 1);
    EXPECT_EQ(tokens.front(), start);
    EXPECT_EQ(decoded(tokenizer, tokens), marked.text);
}

TEST(Tokenizer, PlainOrControlMakesNoOtherDifference) {
    const Tokenizer& tokenizer = built_in_tokenizer();
    const std::string text = "def f(x):\n    return x + 1  # naïve e\u0301\n\n\t\u3000中文 123 don't";
    MarkedText mixed;
    for (const char byte : text) mixed.append({&byte, 1}, byte % 3 == 0);
    EXPECT_EQ(plain(tokenizer, text), control(tokenizer, text));
    EXPECT_EQ(tokenizer.encode(mixed), control(tokenizer, text));
}

TEST(Tokenizer, TheLongestAddedTokenWins) {
    TokenizerDescription description = description_of({});
    const auto add = [&](const char* content) {
        description.added.push_back({static_cast<Token>(256 + description.added.size()), content, true});
    };
    for (const char* content : {"<a>", "<a>b", "a>", "<a>bcd"}) add(content);
    const Tokenizer tokenizer = *Tokenizer::make(std::move(description));
    EXPECT_THAT(control(tokenizer, "<a>bc<a><a>bcd"), ElementsAre(257, 'c', 256, 259));
    EXPECT_THAT(control(tokenizer, "a>x"), ElementsAre(258, 'x'));
    MarkedText marked;
    marked.append("<a>", false);
    marked.append("b", true);
    EXPECT_THAT(tokenizer.encode(marked), ElementsAre(256, 'b'));
}

TEST(Tokenizer, AStrippingTokenTakesSpacesButNotPlainOnes) {
    TokenizerDescription description = description_of({});
    description.added.push_back({256, "<x>", true, true, true});
    const Tokenizer tokenizer = *Tokenizer::make(std::move(description));
    EXPECT_THAT(control(tokenizer, "a \n<x>\u3000\tb"), ElementsAre('a', 256, 'b'));
    MarkedText marked;
    marked.append("a ", true);
    marked.append(" <x> ", false);
    marked.append(" b", true);
    EXPECT_THAT(tokenizer.encode(marked), ElementsAre('a', ' ', 256, ' ', 'b'));
}

TEST(Tokenizer, ATokenOfNormalizedTextIsFoundAfterNfc) {
    TokenizerDescription description = description_of({});
    description.nfc = true;
    AddedToken token{256, "né", false};
    token.normalized = true;
    description.added = {token, {257, "ne\u0301!", true}};
    const Tokenizer tokenizer = *Tokenizer::make(std::move(description));
    EXPECT_THAT(control(tokenizer, "ne\u0301."), ElementsAre(256, '.'));
    EXPECT_THAT(control(tokenizer, "ne\u0301!"), ElementsAre(257));
    EXPECT_THAT(plain(tokenizer, "ne\u0301"), Not(Contains(256)));
}

TEST(Tokenizer, AWordThatIsATokenIsTakenWholeWhenMergesAreIgnored) {
    TokenizerDescription description = description_of({{"a", "b"}, {"b", "c"}});
    description.pieces.push_back("abc");
    description.split_patterns = {" "};
    TokenizerDescription ignoring = description;
    ignoring.ignore_merges = true;
    EXPECT_THAT(plain(*Tokenizer::make(std::move(description)), "abc abc"),
                ElementsAre(256, 'c', ' ', 256, 'c'));
    EXPECT_THAT(plain(*Tokenizer::make(std::move(ignoring)), "abc abcc"),
                ElementsAre(258, ' ', 256, 'c', 'c'));
}

TEST(Tokenizer, BytesThatAreNotUtf8GoInAsReplacements) {
    const Tokenizer& tokenizer = built_in_tokenizer();
    std::mt19937 random(3);
    for (int round = 0; round < 500; ++round) {
        std::string bytes(random() % 40, ' ');
        for (char& byte : bytes)
            byte = static_cast<char>("aé\xE2\x82\xF0\x9F <|"[random() % 10] + (random() % 9 == 0 ? 80 : 0));
        const std::string whole = repair_utf8(bytes);
        EXPECT_EQ(plain(tokenizer, bytes), plain(tokenizer, whole));
        EXPECT_EQ(decoded(tokenizer, plain(tokenizer, bytes)), to_nfc(MarkedText::all_plain(whole)).text);
    }
    // A control token keeps its place, and a plain one stays plain, behind bytes that were replaced.
    MarkedText marked;
    marked.append("\xFF\xE2\x82", true);
    marked.append("<|im_end|>\xF0", false);
    marked.append("\x9F<|im_end|>", true);
    const std::vector<Token> tokens = tokenizer.encode(marked);
    EXPECT_EQ(std::count(tokens.begin(), tokens.end(), *tokenizer.find("<|im_end|>")), 1);
    EXPECT_EQ(decoded(tokenizer, tokens), repair_utf8(marked.text));
}

TEST(Tokenizer, AMegabyteOfAnythingIsNoTrouble) {
    const Tokenizer& tokenizer = built_in_tokenizer();
    for (const std::string unit :
         {"a", " ", "\n", "=", "é", "\u0301", "中", "ab", "\xFF", "<", "<|im_end|>"}) {
        std::string text;
        while (text.size() < 1 << 20) text += unit;
        const std::vector<Token> tokens = plain(tokenizer, text);
        EXPECT_EQ(decoded(tokenizer, tokens), repair_utf8(text));
    }
}

TEST(Tokenizer, StopsSoonAfterAsManyTokensAsAreWanted) {
    const Tokenizer& tokenizer = built_in_tokenizer();
    std::string text;
    for (int i = 0; i < 200; ++i) text += "some words <|im_end|> and e\u0301 more";
    const auto all = control(tokenizer, text);
    for (const std::size_t most :
         {std::size_t(0), std::size_t(1), std::size_t(100), all.size() - 1, all.size()}) {
        const auto some = tokenizer.encode(MarkedText::all_control(text), most);
        EXPECT_GT(some.size(), std::min(most, all.size() - 1));
        EXPECT_LT(some.size(), most + 10);
        EXPECT_TRUE(std::ranges::equal(some, std::span(all).first(some.size()))) << most;
    }
}

TEST(Tokenizer, StopsInsideAWordOfMegabytes) {
    const Tokenizer& tokenizer = built_in_tokenizer();
    const MarkedText word = MarkedText::all_plain(std::string(1u << 20, 'x'));
    const std::size_t all = tokenizer.encode(word).size();
    const std::size_t some = tokenizer.encode(word, 1000).size();
    EXPECT_GT(some, 1000u);
    EXPECT_LT(some, all / 8);
    EXPECT_EQ(tokenizer.encode(word, all).size(), all);
}

TEST(Tokenizer, ManyThreadsMayEncodeAtOnce) {
    const Tokenizer tokenizer = *Tokenizer::make(built_in_description());
    const std::string text = file_contents(KAPITSA_SOURCE_DIR "/models/tiny/chat_template.jinja");
    const std::vector<Token> expected = plain(built_in_tokenizer(), text);
    std::vector<std::vector<Token>> results(4);
    {
        std::vector<std::jthread> threads;
        for (auto& result : results) threads.emplace_back([&] { result = plain(tokenizer, text); });
    }
    EXPECT_THAT(results, Each(expected));
}

TEST(Tokenizer, KnowsItsTokens) {
    const Tokenizer& tokenizer = built_in_tokenizer();
    EXPECT_EQ(tokenizer.vocabulary(), 8192u);
    EXPECT_EQ(tokenizer.find("<|im_end|>"), 8167);
    EXPECT_EQ(tokenizer.piece(8167), "<|im_end|>");
    EXPECT_EQ(tokenizer.find("\n"), 198);
    EXPECT_EQ(tokenizer.find("no such piece"), std::nullopt);
    EXPECT_TRUE(tokenizer.is_special(8167));
    EXPECT_FALSE(tokenizer.is_special(*tokenizer.find("<think>")));
    for (const Token outside : {-1, 8192, 1 << 30}) {
        EXPECT_EQ(tokenizer.piece(outside), "");
        EXPECT_FALSE(tokenizer.is_special(outside));
    }
}

TEST(Tokenizer, ADescriptionThatCannotWorkIsRefused) {
    const auto refusal = [](auto change) {
        TokenizerDescription description = description_of({{"a", "b"}});
        change(description);
        const auto tokenizer = Tokenizer::make(std::move(description));
        return tokenizer ? "it was taken" : tokenizer.error().message;
    };
    using D = TokenizerDescription;
    EXPECT_THAT(refusal([](D& d) { d.pieces['x'].clear(); }), HasSubstr("no token for the byte 120"));
    EXPECT_THAT(refusal([](D& d) { d.merges.emplace_back("b", "c"); }), HasSubstr("makes a piece"));
    EXPECT_THAT(refusal([](D& d) { d.pieces.push_back("ab"); }), HasSubstr("has the text of another"));
    EXPECT_THAT(refusal([](D& d) { d.added.push_back({-1, "<x>"}); }), HasSubstr("\"<x>\" has the id -1"));
    EXPECT_THAT(refusal([](D& d) { d.added.push_back({1 << 22, "<x>"}); }), HasSubstr("id 4194304"));
    EXPECT_THAT(refusal([](D& d) { d.added.push_back({97, "<x>"}); }), HasSubstr("the id 97 of \"a\""));
    EXPECT_THAT(refusal([](D& d) { d.added.push_back({300, "ab"}); }),
                HasSubstr("the vocabulary gives it 256"));
    EXPECT_THAT(refusal([](D& d) { d.added = {{300, "<x>"}, {301, "<x>"}}; }), HasSubstr("stands twice"));
    EXPECT_THAT(refusal([](D& d) { d.added.push_back({300, ""}); }), HasSubstr("1 to 4096 bytes"));
    EXPECT_THAT(refusal([](D& d) { d.added.push_back({300, "\xFF"}); }), HasSubstr("UTF-8"));
    EXPECT_THAT(refusal([](D& d) { d.added.push_back({300, "x", true, false, false, true}); }),
                HasSubstr("single_word"));
    EXPECT_THAT(refusal([](D& d) { d.split_patterns = {"(a"}; }), HasSubstr("split regex"));
    EXPECT_EQ(refusal([](D& d) { d.added.push_back({256, "ab"}); }), "it was taken");
}

}  // namespace
}  // namespace kapitsa

#include "text/splitter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/built_in_tokenizer.h"

namespace kapitsa {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> words(const std::vector<std::string>& regexes, std::string_view text) {
    std::vector<SplitPattern> patterns;
    for (const std::string& regex : regexes) patterns.push_back(*SplitPattern::make(regex));
    std::vector<std::string> found;
    Splitter(patterns).split(text, [&](std::string_view word) {
        found.emplace_back(word);
        return true;
    });
    return found;
}

const std::vector<std::string>& qwen() {
    static const std::vector<std::string> regexes = built_in_description().split_patterns;
    return regexes;
}

TEST(Splitter, CutsAsTheModelsRegexSays) {
    EXPECT_THAT(words(qwen(), "Don't  stop 12!\n\n  x"),
                ElementsAre("Don", "'t", " ", " stop", " ", "1", "2", "!\n\n", " ", " x"));
    EXPECT_THAT(words(qwen(), "I'LL हिन्दी (a)"), ElementsAre("I", "'LL", " हिन्दी", " (", "a", ")"));
    EXPECT_THAT(words(qwen(), ""), ElementsAre());
}

TEST(Splitter, WhiteSpaceIsWhatUnicodeCallsSo) {
    for (const char* space :
         {" ", "\t", "\v", "\u0085", "\u00A0", "\u1680", "\u2003", "\u2028", "\u205F", "\u3000"})
        EXPECT_THAT(words({"\\s+"}, std::string("a") + space + "b"), ElementsAre("a", space, "b"));
    for (const char* other : {"\u001C", "\u001F", "\u180E", "\u200B", "\u2060", "\uFEFF"})
        EXPECT_THAT(words({"[\\s]+"}, std::string("a") + other + "b"),
                    ElementsAre(std::string("a") + other + "b"));
}

TEST(Splitter, EachRegexCutsWhatTheOneBeforeItLeft) {
    EXPECT_THAT(words({"\\d{1,3}", "[a-z]+", " "}, "ab12345 cd!"),
                ElementsAre("ab", "123", "45", " ", "cd", "!"));
    EXPECT_THAT(words({}, "one word"), ElementsAre("one word"));
}

TEST(Splitter, WhatPcreAndOnigurumaReadDifferentlyIsRefused) {
    for (const char* regex :
         {"a.", "^a", "a$", "\\w+", "\\bx", "\\h", "[[:alpha:]]", "[a&&b]", "[a[b]]", "(?m:a)", "(?<n>a)",
          "\\p{Greek}", "\\p{^L}", "\\pL", "\\1", "[]a]", "(?i)a", "(*UTF)a", "\\"}) {
        const auto pattern = SplitPattern::make(regex);
        ASSERT_FALSE(pattern) << regex;
        EXPECT_THAT(pattern.error().message, HasSubstr("split regex")) << regex;
    }
    EXPECT_THAT(SplitPattern::make("a*").error().message, HasSubstr("matches the empty text"));
    EXPECT_THAT(SplitPattern::make("(a").error().message, HasSubstr("not valid"));
    EXPECT_THAT(SplitPattern::make(std::string(20'000, 'a')).error().message, HasSubstr("16 KiB"));
    EXPECT_TRUE(SplitPattern::make(R"((?i:'s)|\p{Lu}+(?!\S)|[^\s\p{L}\-\]]{2,}|(?<=a)b|\n)"));
}

TEST(Splitter, ARegexThatNeverEndsIsGivenUpAndTheTextStaysWhole) {
    const std::string text = std::string(60, 'a') + "!";
    EXPECT_THAT(words({"(?:a+)+b"}, text), ElementsAre(text));
}

TEST(Splitter, LongTextNeedsNoStack) {
    const std::string text(1 << 20, 'a');
    EXPECT_THAT(words({"(?:a|b)+"}, text).size(), testing::Ge(1u));
    EXPECT_THAT(words(qwen(), std::string(1 << 20, ' ') + "x"),
                ElementsAre(std::string((1 << 20) - 1, ' '), " x"));
}

}  // namespace
}  // namespace kapitsa

#include "text/normal_form.h"

#include <gtest/gtest.h>

namespace kapitsa {
namespace {

std::string nfc(std::string text) { return to_nfc(MarkedText::all_control(std::move(text))).text; }

TEST(NormalForm, TextThatIsInItIsTakenWhole) {
    for (const std::string text : {"", "plain text", "naïve café", "中文 한국어 ひらがな",
                                   "👩‍👩‍👧 Привет", "नमस्ते"}) {
        EXPECT_EQ(nfc_prefix(text), text.size()) << text;
        EXPECT_EQ(nfc(text), text);
    }
}

TEST(NormalForm, ALoneMarkOutOfOrderIsMoved) {
    EXPECT_EQ(nfc_prefix("क\u094D\u0E38"), 9u);  // classes 9 and 103
    EXPECT_EQ(nfc_prefix(".क\u0E38\u094D"), 1u);
    EXPECT_EQ(nfc("क\u0E38\u094D."), "क\u094D\u0E38.");
    EXPECT_EQ(nfc("क\u094D\u0E38."), "क\u094D\u0E38.");
}

TEST(NormalForm, MarksAreOrderedAndComposed) {
    EXPECT_EQ(nfc("e\u0301"), "é");
    EXPECT_EQ(nfc("e\u0328 s\u0327 o\u031B a\u030A u\u030B i\u0307"), "ę ş ơ å ű i\u0307");
    EXPECT_EQ(nfc("q\u0307\u0323"), "q\u0323\u0307");
    EXPECT_EQ(nfc("d\u0307\u0323"), "\u1E0D\u0307");
    EXPECT_EQ(nfc("\u1E0B\u0323"), "\u1E0D\u0307");
    EXPECT_EQ(nfc("a\u0316\u0300x"), "à\u0316x");
    EXPECT_EQ(nfc("\u0301\u0327 a"), "\u0327\u0301 a");
    EXPECT_EQ(nfc("abc e\u0301 def o\u0308\u0304!"), "abc é def \u022B!");
    EXPECT_EQ(nfc("か\u3099"), "が");
}

TEST(NormalForm, HangulIsComposed) {
    EXPECT_EQ(nfc("\u1112\u1161\u11AB"), "한");
    EXPECT_EQ(nfc("\uD558\u11AB\u11AB"), "한\u11AB");
    EXPECT_EQ(nfc("\u1161\u11AB"), "\u1161\u11AB");
}

TEST(NormalForm, SingletonsGiveWayAndExclusionsStayApart) {
    EXPECT_EQ(nfc("\u212B\u2126\u212A"), "ÅΩK");
    EXPECT_EQ(nfc("\u0958"), "\u0915\u093C");
    EXPECT_EQ(nfc("\u0344"), "\u0308\u0301");
    EXPECT_EQ(nfc("\uF900"), "\u8C48");
    EXPECT_EQ(nfc("\U0001D15E"), "\U0001D157\U0001D165");
}

TEST(NormalForm, VowelSignsOfTwoPartsAreComposed) {
    EXPECT_EQ(nfc("\u09C7\u09BE"), "\u09CB");
    EXPECT_EQ(nfc("\u0CC6\u0CC2\u0CD5"), "\u0CCB");
    EXPECT_EQ(nfc("\u0DD9\u0DCF\u0DCA"), "\u0DDD");
    EXPECT_EQ(nfc("\U00011131\U00011127"), "\U0001112E");
}

TEST(NormalForm, ALongRunOfMarksInTheWorstOrderIsNoTrouble) {
    std::string text = "a";
    for (int i = 0; i < 100'000; ++i) text += "\u0301\u0327";
    const std::string normal = nfc(text);
    EXPECT_EQ(normal.size(), text.size() - 1);  // a and the first acute accent became á
    EXPECT_EQ(normal.substr(0, 4), "á\u0327");
    EXPECT_EQ(nfc(normal), normal);
}

TEST(NormalForm, PlainRangesFollowTheirCharacters) {
    MarkedText marked;
    marked.append("one ", false);
    marked.append("two e\u0301 three", true);
    marked.append(" four", false);
    marked.append("e", false);
    marked.append("\u0301", true);  // joins a control character, which becomes plain
    marked.append("!", false);
    const MarkedText normal = to_nfc(marked);
    EXPECT_EQ(normal.text, "one two é three fouré!");
    const auto text_of = [&](std::size_t i) {
        return normal.text.substr(normal.plain[i].begin, normal.plain[i].end - normal.plain[i].begin);
    };
    ASSERT_EQ(normal.plain.size(), 2u);
    EXPECT_EQ(text_of(0), "two é three");
    EXPECT_EQ(text_of(1), "é");
}

}  // namespace
}  // namespace kapitsa

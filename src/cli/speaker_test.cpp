#include "cli/speaker.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace kapitsa {
namespace {

using Kind = ReplyPiece::Kind;

std::string spoken(Manner manner, const std::vector<ReplyPiece>& pieces) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), &std::fclose);
    Speaker speaker(file.get(), manner);
    for (const auto& piece : pieces) speaker.say({&piece, 1});
    speaker.finish();
    std::rewind(file.get());
    std::string text(4096, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), file.get()));
    return text;
}

TEST(Printable, KeepsTextAndDropsWhatATerminalObeys) {
    EXPECT_EQ(printable("a\tb\nä€😀"), "a\tb\nä€😀");
    EXPECT_EQ(printable("\033[2Jx\007\r\x7f"), "[2Jx");
    EXPECT_EQ(printable("\xc2\x9b"
                        "2Jx\xc2\xa0"),
              "2Jx\xc2\xa0");
    EXPECT_EQ(printable(std::string_view("a\0b", 3)), "ab");
}

TEST(Speaker, ShowsThinkingDimOnATerminalAndTheAnswerOnALineOfItsOwn) {
    EXPECT_EQ(spoken(Manner::dim, {{.kind = Kind::reasoning, .text = "hm"},
                                   {.kind = Kind::reasoning, .text = "m"},
                                   {.kind = Kind::content, .text = "Yes"},
                                   {.kind = Kind::content, .text = "."}}),
              "\033[2mhmm\n\033[22mYes.\n");
}

TEST(Speaker, SetsThinkingApartByWordsWhereThereAreNoColours) {
    const std::vector<ReplyPiece> pieces = {{.kind = Kind::reasoning, .text = "hm"},
                                            {.kind = Kind::content, .text = "Yes"}};
    EXPECT_EQ(spoken(Manner::plain, pieces), "[thinking]\nhm\n[end of thinking]\nYes\n");
}

TEST(Speaker, LeavesThinkingOutOfAFileAndTheTextAsItIs) {
    EXPECT_EQ(spoken(Manner::file, {{.kind = Kind::reasoning, .text = "hm"},
                                    {.kind = Kind::content, .text = "\033[1mYes"}}),
              "\033[1mYes\n");
}

TEST(Speaker, AddsNoSecondNewline) {
    EXPECT_EQ(spoken(Manner::dim, {{.kind = Kind::content, .text = "Yes\n"}}), "Yes\n");
    EXPECT_EQ(spoken(Manner::dim, {}), "");
}

}  // namespace
}  // namespace kapitsa

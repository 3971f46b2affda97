#include "cli/line_editor.h"

#include <gtest/gtest.h>

namespace kapitsa {
namespace {

TEST(PlainPaste, HasNewlinesAsWeHaveThem) {
    EXPECT_EQ(plain_paste(L"one\rtwo\r\nthree\nfour\r"), L"one\ntwo\nthree\nfour\n");
}

TEST(PlainPaste, KeepsTextAndTabsAndNothingThatATerminalObeys) {
    EXPECT_EQ(plain_paste(L"a\tä€😀\u00a0b"), L"a\tä€😀\u00a0b");
    EXPECT_EQ(plain_paste(std::wstring_view(L"a\0b\033[2J\x7f\x9b", 9)), L"ab[2J");
}

}  // namespace
}  // namespace kapitsa

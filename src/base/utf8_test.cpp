#include "base/utf8.h"

#include <gtest/gtest.h>

namespace kapitsa {
namespace {

TEST(Utf8, AHalfCharacterWaitsAndABrokenOneDoesNot) {
    EXPECT_EQ(complete_utf8("ab\xE2\x82"), "ab");
    EXPECT_EQ(complete_utf8("ab\xF0\x9F\x98"), "ab");
    EXPECT_EQ(complete_utf8("ab\xE2\x82\xAC"), "ab\xE2\x82\xAC");
    EXPECT_EQ(complete_utf8("ab\xFF"), "ab\xFF");
    EXPECT_EQ(complete_utf8("ab\xE0\x80"), "ab\xE0\x80");  // overlong: no third byte can mend it
    EXPECT_EQ(complete_utf8("\x80\x80\x80\x80"), "\x80\x80\x80\x80");
}

TEST(Utf8, SurrogatesOverlongFormsAndValuesPastTheEndAreNotUtf8) {
    EXPECT_FALSE(is_utf8("\xED\xA0\x80"));
    EXPECT_FALSE(is_utf8("\xC0\xAF"));
    EXPECT_FALSE(is_utf8("\xF4\x90\x80\x80"));
    EXPECT_TRUE(is_utf8("\xF4\x8F\xBF\xBF"));
    EXPECT_EQ(valid_utf8_prefix("abc\xFFz"), 3u);
}

TEST(Utf8, RepairReplacesEachMaximalSubpartOnce) {
    EXPECT_EQ(repair_utf8("a\xF0\x9F\x98z"), "a\xEF\xBF\xBDz");
    EXPECT_EQ(repair_utf8("\xED\xA0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
    EXPECT_EQ(repair_utf8("plain"), "plain");
}

TEST(Utf8, ACodePointIsAppendedInItsShortestForm) {
    std::string text;
    for (const char32_t c : {U'a', U'\u00E9', U'\u20AC', U'\U0001F600', char32_t{0xD800}})
        append_utf8(text, c);
    EXPECT_EQ(text, "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\xEF\xBF\xBD");
}

}  // namespace
}  // namespace kapitsa

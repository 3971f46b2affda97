#include "base/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace kapitsa {
namespace {

TEST(ParseJson, KeepsTheOrderOfMembers) {
    const auto json = parse_json(R"({"z":1,"a":[true,null,-2,1.5,"\u00e9"],"m":{}})");
    ASSERT_TRUE(json);
    EXPECT_EQ(dump_json(*json), R"({"z":1,"a":[true,null,-2,1.5,"é"],"m":{}})");
}

TEST(ParseJson, RefusesWhatBreaksALimitAndSaysWhich) {
    const auto why = [](std::string_view text, JsonLimits limits = {}) {
        const auto json = parse_json(text, limits);
        return json ? std::string("accepted") : json.error().message;
    };
    EXPECT_NE(why(R"({"a":1,"a":2})").find("\"a\" stands twice"), std::string::npos);
    EXPECT_NE(why(std::string(200, '[')).find("deeper than 128"), std::string::npos);
    EXPECT_NE(why(R"({"a":1,"b":2})", {.members = 1}).find("more than 1 members"), std::string::npos);
    EXPECT_NE(why("[1,2]", {.bytes = 3}).find("the limit is 3"), std::string::npos);
    EXPECT_NE(why("[\"\xFF\"]").find("not UTF-8 at byte 2"), std::string::npos);
    EXPECT_NE(why("{\"a\":}").find("not valid JSON"), std::string::npos);
    EXPECT_NE(why("").find("not valid JSON"), std::string::npos);
    EXPECT_NE(why("[1] x").find("not valid JSON"), std::string::npos);
    EXPECT_NE(why(std::string_view("[1]\0x", 5)).find("a zero byte (byte 3)"), std::string::npos);
}

TEST(ParseJson, HalfASurrogatePairBecomesAReplacementCharacter) {
    const auto text = [](const char* json) { return parse_json(json)->get<std::string>(); };
    EXPECT_EQ(text(R"("a\ud83d")"), "a\xEF\xBF\xBD");
    EXPECT_EQ(text(R"("\ude00b")"),
              "\xEF\xBF\xBD"
              "b");
    EXPECT_EQ(text(R"("\ud83d\ude00")"), "\xF0\x9F\x98\x80");
    EXPECT_EQ(text(R"("\ud83d\ud83d\ude00")"), "\xEF\xBF\xBD\xF0\x9F\x98\x80");
    EXPECT_EQ(text(R"("\\ud83d")"), "\\ud83d");
    EXPECT_FALSE(parse_json(R"("\ud8")"));
}

TEST(ParseJson, AMillionOpenBracketsAreRefusedWithoutRecursion) {
    EXPECT_FALSE(parse_json(std::string(1'000'000, '[')));
}

TEST(DumpJson, BrokenUtf8IsReplacedAndNeverThrows) {
    EXPECT_EQ(dump_json(Json("a\xFF")), "\"a\xEF\xBF\xBD\"");
}

}  // namespace
}  // namespace kapitsa

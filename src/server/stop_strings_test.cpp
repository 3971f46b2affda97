#include "server/stop_strings.h"

#include <gtest/gtest.h>

namespace kapitsa {
namespace {

struct Cut {
    std::string passed;
    std::optional<std::size_t> found;
    bool operator==(const Cut&) const = default;
};

Cut run(const std::vector<std::string>& stops, const std::vector<std::string_view>& pieces) {
    StopStrings finder(stops);
    Cut cut;
    for (const std::string_view piece : pieces) cut.passed += finder.push(piece);
    cut.found = finder.found();
    if (!cut.found) cut.passed += finder.finish();
    EXPECT_EQ(finder.passed_bytes(), cut.passed.size());
    return cut;
}

struct Case {
    std::vector<std::string> stops;
    std::string text;
    std::string passed;
    std::optional<std::size_t> found;
};

const Case cases[] = {
    {{"END"}, "one END two", "one ", 4},
    {{"END"}, "one EN", "one EN", std::nullopt},
    {{"aab"}, "aaaab", "aa", 2},
    {{"abcd", "bc"}, "xabcd", "xa", 2},  // "bc" is complete first
    {{"bc", "abc"}, "xabcd", "x", 1},    // complete at once: the longer one
    {{"\n\n"}, "a\nb\n\nc", "a\nb", 3},
    {{"ж"}, "снежно", "сне", 6},
    {{"a"}, "", "", std::nullopt},
    {{}, "all of it", "all of it", std::nullopt},
    {{"STOP", "TOP", "OP!"}, "xxSTOxOP", "xxSTOxOP", std::nullopt},
};

TEST(StopStrings, FindsTheSameAtTheSamePlaceHoweverTheTextIsCut) {
    for (const Case& test : cases) {
        const Cut expected{test.passed, test.found};
        const std::string_view text = test.text;
        for (std::size_t i = 0; i <= text.size(); ++i)
            for (std::size_t j = i; j <= text.size(); ++j)
                EXPECT_EQ(run(test.stops, {text.substr(0, i), text.substr(i, j - i), text.substr(j)}),
                          expected)
                    << test.text << " cut at " << i << " and " << j;
        std::vector<std::string_view> bytes;
        for (std::size_t i = 0; i < text.size(); ++i) bytes.push_back(text.substr(i, 1));
        EXPECT_EQ(run(test.stops, bytes), expected) << test.text;
    }
}

TEST(StopStrings, HoldsBackNoMoreThanWhatMayBecomeOne) {
    StopStrings finder({"END", "never"});
    EXPECT_EQ(finder.push("the E"), "the ");
    EXPECT_EQ(finder.push("x"), "Ex");
    EXPECT_EQ(finder.push("neve"), "");
    EXPECT_EQ(finder.push("n"), "neve");
    EXPECT_EQ(finder.finish(), "n");
}

TEST(StopStrings, SaysNothingMoreOnceOneWasFound) {
    StopStrings finder({"."});
    EXPECT_EQ(finder.push("a.b"), "a");
    EXPECT_EQ(finder.push("c"), "");
    EXPECT_EQ(finder.found(), 1u);
}

}  // namespace
}  // namespace kapitsa

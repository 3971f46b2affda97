#include "formats/config_reader.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace kapitsa {
namespace {

/// What a reader says of a document, as one line: the value, or the message.
template <typename Ask>
auto ask(std::string_view text, Ask question) {
    const Json json = *parse_json(text);
    const auto answer = question(ConfigReader(json, "config.json"));
    using Value = std::decay_t<decltype(*answer)>;
    if (!answer) return answer.error().message;
    if constexpr (std::is_same_v<Value, std::string>)
        return *answer;
    else
        return dump_json(Json(*answer));
}

TEST(ConfigReader, AMissingFieldIsNamedWithItsWholePath) {
    const Json json = *parse_json(R"({"text_config":{"rope":{}}})");
    const ConfigReader root(json, "config.json");
    const auto text = root.child("text_config");
    ASSERT_TRUE(text);
    EXPECT_EQ(text->number("num_hidden_layers").error().message,
              "config.json: text_config.num_hidden_layers is missing");
    EXPECT_EQ(text->child("rope")->real("theta").error().message,
              "config.json: text_config.rope.theta is missing");
    EXPECT_EQ(root.child("vision_config").error().message, "config.json: vision_config is missing");
    EXPECT_EQ(text->field("x"), "config.json: text_config.x");
}

TEST(ConfigReader, NumbersAreWholeAndWithinTheirRange) {
    const auto layers = [](std::string_view value, WholeRange range = {}) {
        return ask("{\"n\":" + std::string(value) + "}",
                   [&](const ConfigReader& r) { return r.number("n", range); });
    };
    EXPECT_EQ(layers("1"), "1");
    EXPECT_EQ(layers("1000000"), "1000000");
    EXPECT_EQ(layers("0", {0, 5}), "0");
    EXPECT_EQ(layers("-3"), "config.json: n is -3; it must be a whole number from 1 to 1000000");
    EXPECT_EQ(layers("1000001"), "config.json: n is 1000001; it must be a whole number from 1 to 1000000");
    EXPECT_EQ(layers("1010000", token_counts), "1010000");
    EXPECT_EQ(layers("18446744073709551615").substr(0, 42), "config.json: n is 18446744073709551615; it");
    EXPECT_EQ(layers("4294967297").substr(0, 32), "config.json: n is 4294967297; it");
    EXPECT_EQ(layers("2.0").substr(0, 25), "config.json: n is 2.0; it");
    EXPECT_EQ(layers("true").substr(0, 26), "config.json: n is true; it");
    EXPECT_EQ(layers("\"4\"").substr(0, 25), "config.json: n is \"4\"; it");
    EXPECT_EQ(layers("[4]").substr(0, 28), "config.json: n is a list; it");
}

TEST(ConfigReader, RealsFitAFloatUnlessARangeSaysOtherwise) {
    const auto real = [](std::string_view value, RealRange range = {}) {
        return ask("{\"x\":" + std::string(value) + "}",
                   [&](const ConfigReader& r) { return r.real("x", range); });
    };
    EXPECT_EQ(real("1e-6"), "1e-06");
    EXPECT_EQ(real("10000000"), "10000000.0");
    EXPECT_EQ(real("0.5", {0, 1}), "0.5");
    EXPECT_EQ(real("1.5", {0, 1}), "config.json: x is 1.5; it must be a number from 0 to 1");
    EXPECT_EQ(real("1e300").substr(0, 27), "config.json: x is 1e+300; i");
    EXPECT_EQ(real("\"1\"").substr(0, 25), "config.json: x is \"1\"; it");
}

TEST(ConfigReader, AFallbackStandsForWhatIsAbsentOrNullAndForNothingElse) {
    constexpr std::string_view text = R"({"null":null,"wrong":{},"n":7,"f":true,"t":"s","x":0.5})";
    const auto reading = [&](auto question) { return ask(text, question); };
    EXPECT_EQ(reading([](const ConfigReader& r) { return r.number_or("null", 3); }), "3");
    EXPECT_EQ(reading([](const ConfigReader& r) { return r.number_or("n", 3); }), "7");
    EXPECT_EQ(reading([](const ConfigReader& r) { return r.real_or("none", 1.5); }), "1.5");
    EXPECT_EQ(reading([](const ConfigReader& r) { return r.real_or("x", 1.5); }), "0.5");
    EXPECT_EQ(reading([](const ConfigReader& r) { return r.flag_or("none", true); }), "true");
    EXPECT_EQ(reading([](const ConfigReader& r) { return r.flag_or("f", false); }), "true");
    EXPECT_EQ(reading([](const ConfigReader& r) { return r.text_or("none", "d"); }), "d");
    EXPECT_EQ(reading([](const ConfigReader& r) { return r.text_or("t", "d"); }), "s");
    EXPECT_EQ(reading([](const ConfigReader& r) { return r.flag_or("wrong", true); }),
              "config.json: wrong is an object; it must be true or false");
    EXPECT_EQ(reading([](const ConfigReader& r) { return r.text_or("n", "d"); }),
              "config.json: n is 7; it must be a string");
    EXPECT_EQ(reading([](const ConfigReader& r) { return r.number("null"); }),
              "config.json: null is missing");
}

TEST(ConfigReader, ListsNameTheElementThatIsWrong) {
    constexpr std::string_view text =
        R"({"n":[3,3,2],"bad":[1,"a"],"t":["a","b"],"x":[0,1.5],"one":5,"o":{}})";
    const auto reading = [&](auto question) { return ask(text, question); };
    EXPECT_EQ(reading([](const ConfigReader& r) { return r.numbers("n"); }), "[3,3,2]");
    EXPECT_EQ(reading([](const ConfigReader& r) { return r.texts("t"); }), R"(["a","b"])");
    EXPECT_EQ(reading([](const ConfigReader& r) { return r.reals("x"); }), "[0.0,1.5]");
    EXPECT_EQ(reading([](const ConfigReader& r) { return r.numbers("bad"); }),
              "config.json: bad[1] is \"a\"; it must be a whole number from 1 to 1000000");
    EXPECT_EQ(reading([](const ConfigReader& r) { return r.texts("bad"); }),
              "config.json: bad[0] is 1; it must be a string");
    EXPECT_EQ(reading([](const ConfigReader& r) { return r.texts("one"); }),
              "config.json: one is 5; it must be a list");
    EXPECT_EQ(reading([](const ConfigReader& r) { return r.number_or_numbers("one"); }), "[5]");
    EXPECT_EQ(reading([](const ConfigReader& r) { return r.number_or_numbers("n"); }), "[3,3,2]");
    EXPECT_EQ(reading([](const ConfigReader& r) { return r.number_or_numbers("none"); }), "[]");
}

TEST(ConfigReader, ChildOrSelfServesBothLayoutsOfAConfig) {
    const auto layers = [](const ConfigReader& r) -> Result<std::uint32_t> {
        return TRY(r.child_or_self("text_config")).number("layers");
    };
    EXPECT_EQ(ask(R"({"layers":3})", layers), "3");
    EXPECT_EQ(ask(R"({"text_config":{"layers":4},"layers":3})", layers), "4");
    EXPECT_EQ(ask(R"({"text_config":7})", layers), "config.json: text_config is 7; it must be an object");
}

}  // namespace
}  // namespace kapitsa

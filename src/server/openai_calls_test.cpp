// Tool calls, as the dialect tells them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "server/dialect_test.h"

namespace kapitsa {
namespace {

using testing::StartsWith;

constexpr std::string_view weather_tool =
    R"("tools":[{"type":"function","function":{"name":"weather","parameters":{"type":"object",)"
    R"("properties":{"city":{"type":"string"},"days":{"type":"integer"}}}}}])";
constexpr std::string_view weather_call =
    "Let me see.\n\n<tool_call>\n<function=weather>\n<parameter=city>\nKyiv\n</parameter>\n"
    "<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>";

TEST_F(Dialect, ACallIsToldFromContent) {
    script->on_submit = always_say(std::string(weather_call));
    const Json choice = body_of(whole(ask_chat(std::string(weather_tool))))["choices"][0];
    EXPECT_EQ(choice["finish_reason"], "tool_calls");
    EXPECT_EQ(choice["message"]["content"], "Let me see.");
    const Json call = choice["message"]["tool_calls"][0];
    EXPECT_THAT(call["id"].get<std::string>(), StartsWith("call_"));
    EXPECT_EQ(call["type"], "function");
    EXPECT_EQ(call["function"].dump(), R"({"name":"weather","arguments":"{\"city\":\"Kyiv\",\"days\":3}"})");
    EXPECT_EQ(decoded(script->asked.poll()->prompt), "user: hi\ntools\nassistant: ");
}

TEST_F(Dialect, ACallStreamsItsNameOnceAndThenItsArguments) {
    Handled handled = ask_chat(R"("stream":true,)" + std::string(weather_tool));
    auto& answer = std::get<std::unique_ptr<Answer>>(handled);
    answer->advance();
    const auto asked = script->asked.poll();
    std::vector<Json> deltas;
    for (const char byte : weather_call) {  // a token at a time
        say(*asked, std::string(1, byte));
        for (const std::string& frame : answer->advance())
            deltas.push_back(event(frame)["choices"][0]["delta"]);
    }
    finish(*asked);
    const auto last = answer->advance();
    ASSERT_EQ(last.size(), 2u);
    EXPECT_EQ(event(last[0])["choices"][0]["finish_reason"], "tool_calls");
    std::string content, arguments;
    std::size_t begun = 0;
    for (const Json& delta : deltas) {
        if (delta.contains("content")) content += delta["content"].get<std::string>();
        if (!delta.contains("tool_calls")) continue;
        const Json& call = delta["tool_calls"][0];
        EXPECT_EQ(call["index"], 0);
        arguments += call["function"]["arguments"].get<std::string>();
        if (!call.contains("id")) continue;
        ++begun;
        EXPECT_EQ(call["function"]["name"], "weather");
    }
    EXPECT_EQ(begun, 1u);
    EXPECT_EQ(content, "Let me see.");
    EXPECT_EQ(arguments, R"({"city":"Kyiv","days":3})");
}

TEST_F(Dialect, WhereNoCallIsWantedItsMarkupIsText) {
    script->on_submit = always_say(std::string(weather_call));
    for (const std::string& fields :
         {std::string(), std::string(weather_tool) + R"(,"tool_choice":"none")"}) {
        const Json choice = body_of(whole(ask_chat(fields)))["choices"][0];
        EXPECT_EQ(choice["finish_reason"], "stop");
        EXPECT_EQ(choice["message"]["content"], weather_call);
        EXPECT_EQ(decoded(script->asked.poll()->prompt), "user: hi\nassistant: ");
    }
}

TEST_F(Dialect, ACallThatAStopStringCutsIsNotCalledWhole) {
    script->on_submit = always_say(std::string(weather_call));
    const Json choice =
        body_of(whole(ask_chat(R"("stop":"iv\n",)" + std::string(weather_tool))))["choices"][0];
    EXPECT_EQ(choice["finish_reason"], "length");
}

constexpr std::string_view three_calls =
    "Both.\n\n<tool_call>\n<function=weather>\n<parameter=city>\nKyiv\n</parameter>\n</function>\n</"
    "tool_call>\n"
    "<tool_call>\n<function=weather>\n<parameter=city>\nNaples\n</parameter>\n<parameter=days>\n2\n</"
    "parameter>\n"
    "</function>\n</tool_call>\n<tool_call>\n<function=weather>\n</function>\n</tool_call>";
constexpr const char* three_arguments[] = {R"({"city":"Kyiv"})", R"({"city":"Naples","days":2})", "{}"};

TEST_F(Dialect, SeveralCallsAreListedInTheirOrder) {
    script->on_submit = always_say(std::string(three_calls));
    const Json choice = body_of(whole(ask_chat(std::string(weather_tool))))["choices"][0];
    EXPECT_EQ(choice["finish_reason"], "tool_calls");
    EXPECT_EQ(choice["message"]["content"], "Both.");
    const Json& calls = choice["message"]["tool_calls"];
    ASSERT_EQ(calls.size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(calls[i]["function"]["name"], "weather");
        EXPECT_EQ(calls[i]["function"]["arguments"], three_arguments[i]);
        for (std::size_t j = 0; j < i; ++j) EXPECT_NE(calls[i]["id"], calls[j]["id"]);
    }
}

/// Wherever the reply is cut into events.
TEST_F(Dialect, SeveralCallsStreamEachUnderItsIndex) {
    for (const std::size_t step : {std::size_t(1), std::size_t(7), three_calls.size()}) {
        Handled handled = ask_chat(R"("stream":true,)" + std::string(weather_tool));
        auto& answer = std::get<std::unique_ptr<Answer>>(handled);
        answer->advance();
        const auto asked = script->asked.poll();
        std::vector<std::string> frames;
        for (std::size_t at = 0; at < three_calls.size(); at += step) {
            say(*asked, three_calls.substr(at, step));
            for (std::string& frame : answer->advance()) frames.push_back(std::move(frame));
        }
        std::vector<std::string> ids, arguments;
        for (const std::string& frame : frames) {
            const Json delta = event(frame)["choices"][0]["delta"];
            if (!delta.contains("tool_calls")) continue;
            ASSERT_EQ(delta["tool_calls"].size(), 1u);
            const Json& call = delta["tool_calls"][0];
            if (call.contains("id")) {  // it opens here, and the last one is done
                EXPECT_EQ(call["index"], ids.size());
                EXPECT_EQ(call["function"]["name"], "weather");
                ids.push_back(call["id"].get<std::string>());
                arguments.emplace_back();
            }
            ASSERT_FALSE(ids.empty());
            EXPECT_EQ(call["index"], ids.size() - 1);
            arguments.back() += call["function"]["arguments"].get<std::string>();
        }
        EXPECT_THAT(arguments, testing::ElementsAreArray(three_arguments)) << step;
        EXPECT_THAT(std::set<std::string>(ids.begin(), ids.end()), testing::SizeIs(3));
        finish(*asked);
        EXPECT_EQ(event(answer->advance().at(0))["choices"][0]["finish_reason"], "tool_calls");
    }
}

}  // namespace
}  // namespace kapitsa

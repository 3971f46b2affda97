#include "server/openai_request.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace kapitsa {
namespace {

const ModelFacts facts{.sampling = {.temperature = 0.6f, .top_k = 20, .top_p = 0.95f}, .vocabulary = 1000};

Json parsed(std::string_view text) {
    auto json = parse_json(text);
    EXPECT_TRUE(json) << json.error().message;
    return std::move(*json);
}

/// A chat request with one user message, and these fields more.
std::string with(std::string_view fields) {
    return R"({"messages":[{"role":"user","content":"hi"}])" +
           (fields.empty() ? "" : "," + std::string(fields)) + "}";
}

ChatRequest chat(const std::string& body) {
    auto request = parse_chat_request(parsed(body), facts);
    EXPECT_TRUE(request) << body << ": " << request.error().message;
    return request ? std::move(*request) : ChatRequest{};
}

std::string param_of(const std::string& body) {
    const auto request = parse_chat_request(parsed(body), facts);
    if (request) return "accepted";
    EXPECT_EQ(request.error().status, 400) << body;
    EXPECT_FALSE(request.error().message.empty()) << body;
    return request.error().param;
}

TEST(ChatRequest, LeavesToTheModelWhatItDoesNotSay) {
    const ChatRequest request = chat(with(""));
    EXPECT_FLOAT_EQ(request.settings.sampling.temperature, 0.6f);
    EXPECT_EQ(request.settings.sampling.top_k, 20u);
    EXPECT_EQ(request.settings.max_tokens, 0u);
    EXPECT_EQ(request.settings.choices, 1u);
    EXPECT_FALSE(request.settings.stream);
    EXPECT_EQ(request.conversation.tools, nullptr);
    EXPECT_EQ(request.conversation.variables, nullptr);
    EXPECT_EQ(request.settings.seed, std::nullopt);
}

TEST(ChatRequest, TakesEverySetting) {
    const ChatRequest request = chat(with(
        R"("model":"m","stream":true,"stream_options":{"include_usage":true},"temperature":0,"top_p":0.5,)"
        R"("top_k":-1,"min_p":0.1,"presence_penalty":1,"frequency_penalty":-1,"repetition_penalty":1.1,)"
        R"("logit_bias":{"7":-100,"999":2.5},"seed":-3,"stop":["a","b"],"n":3,"max_tokens":5,)"
        R"("max_completion_tokens":9,"logprobs":true,"top_logprobs":20,"response_format":{"type":"text"},)"
        R"("parallel_tool_calls":true,"user":"u","store":false,"metadata":{},"some_future_field":[1])"));
    const ReplySettings& settings = request.settings;
    EXPECT_EQ(settings.model, "m");
    EXPECT_TRUE(settings.stream && settings.include_usage);
    EXPECT_EQ(settings.sampling.temperature, 0);
    EXPECT_EQ(settings.sampling.top_k, 0u);
    EXPECT_FLOAT_EQ(settings.sampling.frequency_penalty, -1);
    EXPECT_EQ(settings.sampling.logit_bias,
              (std::vector<std::pair<Token, float>>{{7, -100.0f}, {999, 2.5f}}));
    EXPECT_EQ(settings.seed, static_cast<std::uint64_t>(-3));
    EXPECT_EQ(settings.stops, (std::vector<std::string>{"a", "b"}));
    EXPECT_EQ(settings.choices, 3u);
    EXPECT_EQ(settings.max_tokens, 9u);
    EXPECT_TRUE(settings.sampling.logprobs);
    EXPECT_EQ(settings.sampling.top_logprobs, 20u);
}

TEST(ChatRequest, NullIsLikeAbsent) {
    EXPECT_EQ(
        param_of(with(R"("stream":null,"temperature":null,"stop":null,"tools":null,"tool_choice":null,)"
                      R"("seed":null,"logit_bias":null,"max_tokens":null,"response_format":null,"n":null)")),
        "accepted");
}

TEST(ChatRequest, ABadFieldIsRefusedByItsName) {
    const std::pair<const char*, const char*> cases[] = {
        {R"("model":5)", "model"},
        {R"("stream":"yes")", "stream"},
        {R"("stream_options":true)", "stream_options"},
        {R"("stream_options":{"include_usage":1})", "stream_options.include_usage"},
        {R"("temperature":9)", "temperature"},
        {R"("temperature":"hot")", "temperature"},
        {R"("temperature":-0.1)", "temperature"},
        {R"("top_p":1.5)", "top_p"},
        {R"("top_k":1.5)", "top_k"},
        {R"("top_k":-2)", "top_k"},
        {R"("min_p":[])", "min_p"},
        {R"("presence_penalty":3)", "presence_penalty"},
        {R"("frequency_penalty":-3)", "frequency_penalty"},
        {R"("repetition_penalty":0)", "repetition_penalty"},
        {R"("logit_bias":[1])", "logit_bias"},
        {R"("logit_bias":{"x":1})", "logit_bias.x"},
        {R"("logit_bias":{"1000":1})", "logit_bias.1000"},
        {R"("logit_bias":{"-1":1})", "logit_bias.-1"},
        {R"("logit_bias":{"1":101})", "logit_bias.1"},
        {R"("logit_bias":{"1":"x"})", "logit_bias.1"},
        {R"("seed":1.5)", "seed"},
        {R"("seed":"x")", "seed"},
        {R"("stop":7)", "stop"},
        {R"("stop":["a",1])", "stop[1]"},
        {R"("stop":["a","a","a","a","a","a","a","a","a","a","a","a","a","a","a","a","a"])", "stop"},
        {R"("n":0)", "n"},
        {R"("n":9)", "n"},
        {R"("max_tokens":0)", "max_tokens"},
        {R"("max_tokens":"5")", "max_tokens"},
        {R"("max_tokens":-1)", "max_tokens"},
        {R"("max_tokens":18446744073709551615)", "max_tokens"},
        {R"("max_completion_tokens":1.5)", "max_completion_tokens"},
        {R"("logprobs":1)", "logprobs"},
        {R"("logprobs":true,"top_logprobs":21)", "top_logprobs"},
        {R"("top_logprobs":1)", "top_logprobs"},
        {R"("response_format":"json")", "response_format"},
        {R"("response_format":{"type":"json_object"})", "response_format"},
        {R"("response_format":{"type":"json_schema"})", "response_format"},
        {R"("response_format":{"type":"poem"})", "response_format.type"},
        {R"("tools":{})", "tools"},
        {R"("tools":[1])", "tools[0]"},
        {R"("tools":[{"type":"web_search"}])", "tools[0].type"},
        {R"("tools":[{"type":"function"}])", "tools[0].function"},
        {R"("tools":[{"type":"function","function":{}}])", "tools[0].function.name"},
        {R"("tools":[{"function":{"name":"f","parameters":[]}}])", "tools[0].function.parameters"},
        {R"("tool_choice":"required")", "tool_choice"},
        {R"("tool_choice":"perhaps")", "tool_choice"},
        {R"("tool_choice":3)", "tool_choice"},
        {R"("tool_choice":{"type":"function","function":{"name":"f"}})", "tool_choice"},
        {R"("parallel_tool_calls":1)", "parallel_tool_calls"},
        {R"("functions":[])", "functions"},
        {R"("function_call":"auto")", "function_call"},
        {R"("chat_template_kwargs":[])", "chat_template_kwargs"},
        {R"("chat_template_kwargs":{"messages":[]})", "chat_template_kwargs.messages"},
        {R"("enable_thinking":"no")", "enable_thinking"},
        {R"("reasoning_effort":3)", "reasoning_effort"},
    };
    for (const auto& [fields, param] : cases) EXPECT_EQ(param_of(with(fields)), param) << fields;
}

TEST(ChatRequest, ABadNumberIsToldWhatItMayBe) {
    const std::pair<const char*, const char*> cases[] = {
        {"temperature", "a number from 0 to 2"},
        {"top_p", "a number from 0 to 1"},
        {"min_p", "a number from 0 to 1"},
        {"presence_penalty", "a number from -2 to 2"},
        {"frequency_penalty", "a number from -2 to 2"},
        {"repetition_penalty", "a number from 0.01 to 10"},
        {"top_k", "an integer from -1 to 2147483647"},
        {"seed", "an integer from -9223372036854775808 to 18446744073709551615"},
        {"n", "an integer from 1 to 8"},
        {"max_tokens", "an integer from 1 to 9223372036854775807"},
        {"max_completion_tokens", "an integer from 1 to 9223372036854775807"},
        {"top_logprobs", "an integer from 0 to 20"},
    };
    for (const auto& [field, range] : cases) {
        for (const char* value : {"\"1\"", "[]", "1e300", "-1e300", "18446744073709551616"}) {
            const auto request =
                parse_chat_request(parsed(with("\"" + std::string(field) + "\":" + value)), facts);
            ASSERT_FALSE(request) << field << " " << value;
            EXPECT_EQ(request.error().param, field);
            EXPECT_NE(request.error().message.find(range), std::string::npos) << request.error().message;
        }
    }
    const auto bias = parse_chat_request(parsed(with(R"("logit_bias":{"1000":1})")), facts);
    EXPECT_NE(bias.error().message.find("from 0 to 999"), std::string::npos) << bias.error().message;
}

TEST(ChatRequest, ASeedIsAnyIntegerOf64Bits) {
    const std::pair<const char*, std::uint64_t> cases[] = {{"0", 0},
                                                           {"5.0", 5},
                                                           {"-1", UINT64_MAX},
                                                           {"18446744073709551615", UINT64_MAX},
                                                           {"-9223372036854775808", 1ull << 63}};
    for (const auto& [text, seed] : cases)
        EXPECT_EQ(chat(with("\"seed\":" + std::string(text))).settings.seed, seed) << text;
    for (const char* text : {"-9223372036854775809", "-9223372036854775810", "18446744073709551616"})
        EXPECT_FALSE(parse_chat_request(parsed(with("\"seed\":" + std::string(text))), facts)) << text;
}

TEST(ChatRequest, AStopStringThatIsEmptyStopsNothing) {
    EXPECT_TRUE(chat(with(R"("stop":"")")).settings.stops.empty());
    EXPECT_TRUE(chat(with(R"("stop":[])")).settings.stops.empty());
    EXPECT_EQ(chat(with(R"("stop":["","a",""])")).settings.stops, std::vector<std::string>{"a"});
}

TEST(ChatRequest, ARefusalDoesNotRepeatALongText) {
    const std::string text(100'000, 'x');
    for (const std::string& body :
         {R"({"messages":[{"role":")" + text + R"(","content":"hi"}]})",
          R"({"messages":[{"role":"user","content":[{"type":")" + text + R"("}]}]})",
          with(R"("tools":[{"type":")" + text + R"("}])"), with(R"("logit_bias":{")" + text + R"(":1})")}) {
        const auto request = parse_chat_request(parsed(body), facts);
        ASSERT_FALSE(request);
        EXPECT_LT(request.error().message.size() + request.error().param.size(), 500u);
    }
}

TEST(ChatRequest, ArgumentsInTheHistoryThatAreNoObjectBecomeOne) {
    for (const char* wrote : {R"({"a":)", "[1]", "plain"}) {
        const Json call = {
            {"id", "1"}, {"type", "function"}, {"function", {{"name", "f"}, {"arguments", wrote}}}};
        const Json body = {{"messages",
                            {{{"role", "user"}, {"content", "x"}},
                             {{"role", "assistant"}, {"content", nullptr}, {"tool_calls", {call}}},
                             {{"role", "tool"}, {"tool_call_id", "1"}, {"content", "bad"}}}}};
        const auto request = parse_chat_request(parsed(body.dump()), facts);
        ASSERT_TRUE(request) << wrote;
        EXPECT_EQ(request->conversation.messages[1].calls[0].arguments, (Json{{"arguments", wrote}}.dump()));
    }
}

TEST(ChatRequest, ABadMessageIsRefusedByItsPlace) {
    const std::pair<const char*, const char*> cases[] = {
        {R"({})", "messages"},
        {R"({"messages":7})", "messages"},
        {R"({"messages":[]})", "messages"},
        {R"({"messages":["hi"]})", "messages[0]"},
        {R"({"messages":[{"content":"hi"}]})", "messages[0].role"},
        {R"({"messages":[{"role":1,"content":"hi"}]})", "messages[0].role"},
        {R"({"messages":[{"role":"robot","content":"hi"}]})", "messages[0].role"},
        {R"({"messages":[{"role":"user"}]})", "messages[0].content"},
        {R"({"messages":[{"role":"user","content":5}]})", "messages[0].content"},
        {R"({"messages":[{"role":"user","content":[{"text":"hi"}]}]})", "messages[0].content[0].type"},
        {R"({"messages":[{"role":"user","content":[{"type":"text"}]}]})", "messages[0].content[0].text"},
        {R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:"}}]}]})",
         "messages[0].content[0]"},
        {R"({"messages":[{"role":"user","content":[{"type":"input_audio"}]}]})", "messages[0].content[0]"},
        {R"({"messages":[{"role":"tool","content":"x"}]})", "messages[0].tool_call_id"},
        {R"({"messages":[{"role":"tool","tool_call_id":"none","content":"x"}]})", "messages[0].tool_call_id"},
        {R"({"messages":[{"role":"assistant","tool_calls":{}}]})", "messages[0].tool_calls"},
        {R"({"messages":[{"role":"assistant","tool_calls":[{}]}]})", "messages[0].tool_calls[0].function"},
        {R"({"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f"}}]}]})",
         "messages[0].tool_calls[0].id"},
        {R"({"messages":[{"role":"assistant","tool_calls":[{"id":"1","function":{}}]}]})",
         "messages[0].tool_calls[0].function.name"},
        {R"({"messages":[{"role":"assistant","reasoning_content":1}]})", "messages[0].reasoning_content"},
    };
    for (const auto& [body, param] : cases) EXPECT_EQ(param_of(body), param) << body;
    EXPECT_EQ(param_of("[]"), "");
    EXPECT_EQ(param_of("null"), "");
}

TEST(ChatRequest, AnImageIsRefusedInPlainWords) {
    const auto request = parse_chat_request(
        parsed(R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]})"),
        facts);
    ASSERT_FALSE(request);
    EXPECT_NE(request.error().message.find("no image input"), std::string::npos);
}

TEST(ChatRequest, MessagesOfEveryRoleBecomeAConversation) {
    const ChatRequest request = chat(R"({"messages":[
        {"role":"system","content":"a"},
        {"role":"developer","content":[{"type":"text","text":"b"},{"type":"text","text":"c"}]},
        {"role":"user","content":"d"},
        {"role":"assistant","content":null,"reasoning_content":"e",
         "tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}},
                       {"id":"2","function":{"name":"g","arguments":{"y":2}}},
                       {"id":"3","function":{"name":"h"}}]},
        {"role":"tool","tool_call_id":"2","content":[{"type":"text","text":"i"}]},
        {"role":"assistant"}]})");
    const auto& messages = request.conversation.messages;
    ASSERT_EQ(messages.size(), 5u);
    EXPECT_EQ(messages[0].role, "system");
    EXPECT_EQ(messages[0].content, "a\n\nbc");
    EXPECT_EQ(messages[2].content, "");
    EXPECT_EQ(messages[2].reasoning, "e");
    ASSERT_EQ(messages[2].calls.size(), 3u);
    EXPECT_EQ(messages[2].calls[0].arguments, R"({"x":1})");
    EXPECT_EQ(messages[2].calls[1].arguments, R"({"y":2})");
    EXPECT_EQ(messages[2].calls[2].arguments, "{}");
    EXPECT_EQ(messages[3].call_id, "2");
    EXPECT_EQ(messages[3].content, "i");
    EXPECT_EQ(messages[4].content, "");
    EXPECT_FALSE(messages[4].reasoning);
}

TEST(ChatRequest, ToolsAreShownUnlessTheyMustNotBeCalled) {
    const std::string tools = R"("tools":[{"type":"function","function":{"name":"f","parameters":{}}}])";
    EXPECT_NE(chat(with(tools)).conversation.tools, nullptr);
    EXPECT_NE(chat(with(tools + R"(,"tool_choice":"auto")")).conversation.tools, nullptr);
    EXPECT_EQ(chat(with(tools + R"(,"tool_choice":"none")")).conversation.tools, nullptr);
    EXPECT_EQ(chat(with(R"("tools":[])")).conversation.tools, nullptr);
}

TEST(ChatRequest, VariablesReachTheTemplate) {
    const ChatRequest request = chat(with(
        R"("chat_template_kwargs":{"a":1,"enable_thinking":false},"enable_thinking":true,"reasoning_effort":"low")"));
    ASSERT_NE(request.conversation.variables, nullptr);
    EXPECT_EQ(dump_json(*request.conversation.variables),
              R"({"a":1,"enable_thinking":true,"reasoning_effort":"low"})");
}

CompletionRequest completion(const std::string& body) {
    auto request = parse_completion_request(parsed(body), facts);
    EXPECT_TRUE(request) << body << ": " << request.error().message;
    return request ? std::move(*request) : CompletionRequest{};
}

TEST(CompletionRequest, TakesATextTextsOrTokens) {
    EXPECT_EQ(std::get<std::string>(completion(R"({"prompt":"a"})").prompts.at(0)), "a");
    EXPECT_EQ(completion(R"({"prompt":["a","b"]})").prompts.size(), 2u);
    EXPECT_EQ(std::get<std::vector<Token>>(completion(R"({"prompt":[1,2]})").prompts.at(0)),
              (std::vector<Token>{1, 2}));
    EXPECT_EQ(completion(R"({"prompt":[[1],[2,3]]})").prompts.size(), 2u);
    EXPECT_EQ(completion(R"({"prompt":"a"})").settings.max_tokens, 16u);
    const Sampling sampling = completion(R"({"prompt":"a","logprobs":0})").settings.sampling;
    EXPECT_TRUE(sampling.logprobs);
    EXPECT_EQ(sampling.top_logprobs, 0u);
}

TEST(CompletionRequest, ABadFieldIsRefusedByItsName) {
    const std::pair<const char*, const char*> cases[] = {
        {R"({})", "prompt"},
        {R"({"prompt":7})", "prompt"},
        {R"({"prompt":[]})", "prompt"},
        {R"({"prompt":[1,1000]})", "prompt[1]"},
        {R"({"prompt":[1,-1]})", "prompt[1]"},
        {R"({"prompt":[1,1.5]})", "prompt[1]"},
        {R"({"prompt":["a",7]})", "prompt[1]"},
        {R"({"prompt":[[1],[1000]]})", "prompt[1][0]"},
        {R"({"prompt":["","","","","","","","","","","","","","","","",""]})", "prompt"},
        {R"({"prompt":["a","b","c","d","e"],"n":8})", "n"},
        {R"({"prompt":"a","logprobs":21})", "logprobs"},
        {R"({"prompt":"a","logprobs":true})", "logprobs"},
        {R"({"prompt":"a","echo":true})", "echo"},
        {R"({"prompt":"a","suffix":"b"})", "suffix"},
        {R"({"prompt":"a","best_of":2})", "best_of"},
    };
    for (const auto& [body, param] : cases) {
        const auto request = parse_completion_request(parsed(body), facts);
        ASSERT_FALSE(request) << body;
        EXPECT_EQ(request.error().param, param) << body;
    }
}

TEST(ChatRequest, WhatCodingAgentsSendIsAccepted) {
    std::size_t seen = 0;
    for (const auto& entry :
         std::filesystem::directory_iterator(KAPITSA_SOURCE_DIR "/tests/fuzz/corpus/openai_request")) {
        if (!entry.path().filename().string().starts_with("agent_")) continue;
        std::ifstream file(entry.path());
        const std::string body{std::istreambuf_iterator<char>(file), {}};
        const auto request = parse_chat_request(parsed(body), facts);
        EXPECT_TRUE(request) << entry.path() << ": " << request.error().param << " "
                             << request.error().message;
        ++seen;
    }
    EXPECT_GE(seen, 5u);
}

}  // namespace
}  // namespace kapitsa

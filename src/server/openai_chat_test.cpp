// The dialect without a socket: what is asked of the engine, and what its answers become.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/dialect_test.h"

namespace kapitsa {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST_F(Dialect, AWholeAnswerHasTheDocumentedForm) {
    script->on_submit = always_say("hello");
    const HttpResponse response = whole(ask_chat(R"("max_tokens":9,"seed":5)"));
    EXPECT_EQ(response.status, 200);
    const Json json = body_of(response);
    EXPECT_THAT(json["id"].get<std::string>(), StartsWith("chatcmpl-"));
    EXPECT_EQ(json["object"], "chat.completion");
    EXPECT_EQ(json["model"], "maker/toy");
    EXPECT_TRUE(json["created"].is_number_integer());
    EXPECT_EQ(
        json["choices"].dump(),
        R"([{"index":0,"message":{"role":"assistant","content":"hello"},"logprobs":null,"finish_reason":"stop"}])");
    EXPECT_EQ(
        json["usage"].dump(),
        R"({"prompt_tokens":20,"completion_tokens":5,"total_tokens":25,"prompt_tokens_details":{"cached_tokens":0},)"
        R"("completion_tokens_details":{"reasoning_tokens":0}})");
    const Json& timings = json["timings"];
    const auto seconds = timings["decode_s"].get<double>();
    // The first of five tokens came of the prompt; the script may take no time that the clock sees.
    EXPECT_NEAR(timings["decode_tokens_per_s"].get<double>() * seconds, seconds > 0 ? 4 : 0, 1e-6);

    const auto asked = script->asked.poll();
    EXPECT_EQ(decoded(asked->prompt), "user: hi\nassistant: ");
    EXPECT_EQ(asked->max_tokens, 9u);
    EXPECT_EQ(asked->stop_tokens, std::vector<Token>{im_end});
    EXPECT_EQ(asked->sampling.seed, 5u);
    EXPECT_EQ(asked->sampling.top_k, 20u);
}

TEST_F(Dialect, AStreamIsAChunkAPieceAndEndsWithDone) {
    Handled handled = ask_chat(R"("stream":true,"stream_options":{"include_usage":true})");
    auto& answer = std::get<std::unique_ptr<Answer>>(handled);
    ASSERT_TRUE(answer->streams());
    auto first = answer->advance();  // before the engine has said anything
    ASSERT_EQ(first.size(), 1u);
    EXPECT_EQ(
        event(first[0])["choices"].dump(),
        R"([{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}])");
    EXPECT_TRUE(event(first[0])["usage"].is_null());

    const auto asked = script->asked.poll();
    start(*asked, 4);
    EXPECT_TRUE(answer->advance().empty());
    say(*asked, "he");
    say(*asked, "llo");
    const auto second = answer->advance();
    ASSERT_EQ(second.size(), 1u);  // what has waited is one chunk
    EXPECT_EQ(event(second[0])["choices"][0]["delta"].dump(), R"({"content":"hello"})");
    EXPECT_EQ(event(second[0])["id"], event(first[0])["id"]);

    finish(*asked);
    const auto last = answer->advance();
    ASSERT_EQ(last.size(), 3u);
    EXPECT_EQ(event(last[0])["choices"][0]["finish_reason"], "stop");
    EXPECT_EQ(event(last[0])["choices"][0]["delta"].dump(), "{}");
    EXPECT_TRUE(event(last[1])["choices"].empty());
    EXPECT_EQ(event(last[1])["usage"]["total_tokens"], 25);
    EXPECT_EQ(last[2], "data: [DONE]\n\n");
    EXPECT_TRUE(answer->finished());
    EXPECT_FALSE(script->cancelled.poll());
}

TEST_F(Dialect, WithoutIncludeUsageThereIsNone) {
    script->on_submit = always_say("x");
    Handled handled = ask_chat(R"("stream":true)");
    const auto events = std::get<std::unique_ptr<Answer>>(handled)->advance();
    ASSERT_EQ(events.size(), 4u);
    for (std::size_t i = 0; i + 1 < events.size(); ++i) {
        EXPECT_FALSE(event(events[i]).contains("usage"));
        EXPECT_EQ(event(events[i])["choices"].size(), 1u);
    }
    EXPECT_TRUE(event(events[2]).contains("timings"));
}

TEST_F(Dialect, AStopStringEndsTheAnswerAndTellsTheEngineWhatToKeep) {
    Handled handled = ask_chat(R"("stop":["END"])");
    auto& answer = std::get<std::unique_ptr<Answer>>(handled);
    const auto asked = script->asked.poll();
    start(*asked);
    say(*asked, "one E");
    answer->advance();
    say(*asked, "ND two");
    answer->advance();
    ASSERT_TRUE(answer->finished());
    const Json json = body_of(answer->response());
    EXPECT_EQ(json["choices"][0]["message"]["content"], "one ");
    EXPECT_EQ(json["choices"][0]["finish_reason"], "stop");
    EXPECT_EQ(json["usage"]["completion_tokens"], 7);
    const auto cancelled = script->cancelled.poll();
    ASSERT_TRUE(cancelled);
    EXPECT_EQ(cancelled->id, asked->id);
    EXPECT_EQ(cancelled->keep_tokens, 4u);
    answer.reset();
    EXPECT_FALSE(script->cancelled.poll());
}

TEST_F(Dialect, ReasoningIsApartFromContent) {
    script->on_submit = always_say("So it is.\n</think>\n\nIt is.");
    const Json json = body_of(whole(ask_chat(R"("enable_thinking":true,"logprobs":true)")));
    const Json message = json["choices"][0]["message"];
    EXPECT_EQ(message["reasoning_content"], "So it is.");
    EXPECT_EQ(message["content"], "It is.");
    // The marker counts as reasoning; what stands behind it, until content begins, too.
    EXPECT_EQ(json["usage"]["completion_tokens_details"]["reasoning_tokens"], 20);
    EXPECT_EQ(json["usage"]["completion_tokens"], 26);
    EXPECT_EQ(json["choices"][0]["logprobs"]["content"].size(), 6u);
}

TEST_F(Dialect, SeveralChoicesAreSeveralRequestsWithSeedsOfTheirOwn) {
    script->on_submit = [](const Submit& request) {
        return always_say("seed " + std::to_string(request.sampling.seed))(request);
    };
    const Json json = body_of(whole(ask_chat(R"("n":3,"seed":7)")));
    ASSERT_EQ(json["choices"].size(), 3u);
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(json["choices"][i]["index"], i);
        EXPECT_EQ(json["choices"][i]["message"]["content"], "seed " + std::to_string(7 + i));
    }
    EXPECT_EQ(json["usage"]["prompt_tokens"], 20);
    EXPECT_EQ(json["usage"]["completion_tokens"], 18);
}

TEST_F(Dialect, AnAnswerThatIsDroppedCancelsWhatItAsked) {
    Handled handled = ask_chat(R"("n":2)");
    const auto first = script->asked.poll(), second = script->asked.poll();
    say(*first, "abc");
    std::get<std::unique_ptr<Answer>>(handled)->advance();
    handled = HttpResponse{};
    EXPECT_EQ(script->cancelled.poll()->keep_tokens, 3u);
    EXPECT_EQ(script->cancelled.poll()->id, second->id);
}

TEST_F(Dialect, ChoicesThatTheQueueDoesNotTakeAreRefusedTogether) {
    int asked = 0;
    script->on_submit = [&](const Submit&) -> Status {
        if (++asked < 3) return Done{};
        return fail(Fault::out_of_memory, "the queue is full");
    };
    const HttpResponse response = whole(ask_chat(R"("n":3)"));
    EXPECT_EQ(response.status, 503);
    EXPECT_EQ(body_of(response)["error"]["type"], "overloaded_error");
    EXPECT_THAT(response.headers, testing::Contains(std::pair<std::string, std::string>("Retry-After", "2")));
    EXPECT_TRUE(script->cancelled.poll());
    EXPECT_TRUE(script->cancelled.poll());
}

TEST_F(Dialect, AnErrorAfterTheHeadIsAnEventAndTheStreamEnds) {
    Handled handled = ask_chat(R"("stream":true)");
    auto& answer = std::get<std::unique_ptr<Answer>>(handled);
    answer->advance();
    const auto asked = script->asked.poll();
    EXPECT_TRUE(asked->outbox->send(Error{Fault::device, "the device is gone"}));
    const auto events = answer->advance();
    ASSERT_EQ(events.size(), 1u);
    EXPECT_EQ(
        event(events[0]).dump(),
        R"({"error":{"message":"the device is gone","type":"server_error","param":null,"code":"device_error"}})");
    EXPECT_TRUE(answer->finished());
}

TEST_F(Dialect, AnEngineThatLeavesWithoutAWordIsAnError) {
    Handled handled = ask_chat("");
    auto& answer = std::get<std::unique_ptr<Answer>>(handled);
    script->asked.poll()->outbox->close();
    answer->advance();
    ASSERT_TRUE(answer->finished());
    EXPECT_EQ(answer->response().status, 500);
}

TEST_F(Dialect, AnAnswerThatIsCutEndsInGoodForm) {
    Handled handled = ask_chat(R"("stream":true,"stream_options":{"include_usage":true})");
    auto& answer = std::get<std::unique_ptr<Answer>>(handled);
    const auto asked = script->asked.poll();
    say(*asked, "half an ans");
    answer->cut();
    const auto events = answer->advance();
    ASSERT_EQ(events.size(), 5u);
    EXPECT_EQ(event(events[1])["choices"][0]["delta"]["content"], "half an ans");
    EXPECT_EQ(event(events[2])["choices"][0]["finish_reason"], "length");
    EXPECT_EQ(event(events[3])["usage"]["completion_tokens"], 11);
    EXPECT_EQ(events[4], "data: [DONE]\n\n");
    EXPECT_EQ(script->cancelled.poll()->keep_tokens, 11u);
}

TEST_F(Dialect, AnAnswerThatIsCutBeforeItBeganOrIsWholeIsUnavailable) {
    Handled silent = ask_chat(R"("stream":true)"), whole = ask_chat("");
    script->asked.poll();
    say(*script->asked.poll(), "half an ans");
    auto& stream = std::get<std::unique_ptr<Answer>>(silent);
    stream->cut();
    const auto events = stream->advance();
    ASSERT_EQ(events.size(), 2u);
    EXPECT_EQ(event(events[1])["error"]["code"], "cancelled");
    EXPECT_TRUE(stream->finished());
    auto& answer = std::get<std::unique_ptr<Answer>>(whole);
    answer->cut();
    answer->advance();
    ASSERT_TRUE(answer->finished());
    EXPECT_EQ(answer->response().status, 503);
    EXPECT_TRUE(script->cancelled.poll() && script->cancelled.poll());  // the engine is told of both
}

TEST_F(Dialect, EqualPromptsAreSeveralSamplesUnlessASeedSaysOtherwise) {
    const auto seeds = [&](const std::string& more) {
        const Handled handled = ask("/v1/completions", R"({"prompt":["a","a"],"n":2)" + more + "}");
        EXPECT_TRUE(std::holds_alternative<std::unique_ptr<Answer>>(handled));
        std::vector<std::uint64_t> all;
        while (const auto asked = script->asked.poll()) all.push_back(asked->sampling.seed);
        return all;
    };
    EXPECT_EQ(seeds(R"(,"seed":5)"), (std::vector<std::uint64_t>{5, 6, 5, 6}));
    const auto random = seeds("");
    ASSERT_EQ(random.size(), 4u);
    EXPECT_NE(random[0], random[2]);
    EXPECT_EQ(random[0] + 1, random[1]);
}

TEST_F(Dialect, LogprobsNameTokensAndBytes) {
    script->on_submit = [](const Submit& request) -> Status {
        EXPECT_EQ(request.sampling.top_logprobs, 2u);
        EXPECT_TRUE(request.outbox->send(
            Tokens{{{.token = 'a',
                     .logprob = -0.5f,
                     .top = {{'a', -0.5f}, {0xC3, -std::numeric_limits<float>::infinity()}}}}}));
        finish(request);
        return Done{};
    };
    const Json json = body_of(whole(ask_chat(R"("logprobs":true,"top_logprobs":2)")));
    EXPECT_EQ(
        json["choices"][0]["logprobs"].dump(),
        R"({"content":[{"token":"a","logprob":-0.5,"bytes":[97],"top_logprobs":[)"
        R"({"token":"a","logprob":-0.5,"bytes":[97]},{"token":"�","logprob":-9999.0,"bytes":[195]}]}],"refusal":null})");
}

TEST_F(Dialect, TheModelIsKnownByItsNamesOnly) {
    script->on_submit = always_say("x");
    for (const char* name : {"maker/toy", "toy", "default", ""})
        EXPECT_EQ(whole(ask_chat(R"("model":")" + std::string(name) + "\"")).status, 200) << name;
    const HttpResponse response = whole(ask_chat(R"("model":"no-such-model")"));
    EXPECT_EQ(response.status, 404);
    const Json error = body_of(response)["error"];
    EXPECT_EQ(error["code"], "model_not_found");
    EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("maker/toy"));
}

TEST_F(Dialect, APromptThatLeavesNoRoomIsRefusedWithBothNumbers) {
    const HttpResponse response = whole(ask_chat("", std::string(5000, 'x')));
    EXPECT_EQ(response.status, 400);
    const Json error = body_of(response)["error"];
    EXPECT_EQ(error["code"], "context_length_exceeded");
    EXPECT_EQ(error["param"], "messages");
    EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("maximum context length is 4096 tokens"));
    EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("has 5018 tokens"));
    // It is not the client who says how long the tokenizer works.
    const HttpResponse huge = whole(ask_chat("", std::string(50'000, 'x')));
    EXPECT_THAT(body_of(huge)["error"]["message"].get<std::string>(), HasSubstr("has at least "));
    const HttpResponse text =
        whole(ask("/v1/completions", R"({"prompt":")" + std::string(5000, 'x') + "\"}"));
    EXPECT_EQ(text.status, 400);
    EXPECT_EQ(body_of(text)["error"]["code"], "context_length_exceeded");
    EXPECT_EQ(body_of(text)["error"]["param"], "prompt");
}

TEST_F(Dialect, ALongAnswerIsCutToWhatTheContextLeaves) {
    script->on_submit = always_say("x");
    whole(ask_chat(R"("max_tokens":1000000)"));
    EXPECT_EQ(script->asked.poll()->max_tokens, 4096u - 20u);
}

TEST_F(Dialect, TheTemplateRefusesInItsOwnWords) {
    const HttpResponse response = whole(ask_chat("", "refuse me"));
    EXPECT_EQ(response.status, 400);
    EXPECT_EQ(body_of(response)["error"]["param"], "messages");
    EXPECT_THAT(body_of(response)["error"]["message"].get<std::string>(),
                HasSubstr("This model does not like that."));
}

TEST_F(Dialect, ABodyThatIsNotJsonIsRefused) {
    for (const char* body : {"", "{", "{\"messages\":[", "{\"model\":\"\xFF\xFE\"}", "{\"a\":1,\"a\":2}"}) {
        const HttpResponse response = whole(ask("/v1/chat/completions", body));
        EXPECT_EQ(response.status, 400) << body;
        EXPECT_EQ(body_of(response)["error"]["type"], "invalid_request_error") << body;
    }
    const auto handled =
        handle_request(*service, {"POST", "/v1/chat/completions", {{"Content-Encoding", "gzip"}}, "{}"}, {});
    EXPECT_EQ(std::get<HttpResponse>(handled).status, 415);
}

TEST_F(Dialect, CompletionsContinueTextAndTokens) {
    script->on_submit = [](const Submit& request) {
        return always_say("<" + decoded(request.prompt) + ">")(request);
    };
    const Json json = body_of(whole(ask("/v1/completions", R"({"prompt":["ab","c"],"n":2})")));
    EXPECT_EQ(json["object"], "text_completion");
    ASSERT_EQ(json["choices"].size(), 4u);
    EXPECT_EQ(json["choices"][1]["text"], "<ab>");
    EXPECT_EQ(json["choices"][2]["text"], "<c>");
    EXPECT_EQ(json["usage"]["prompt_tokens"], 3);
    EXPECT_EQ(body_of(whole(ask("/v1/completions", R"({"prompt":[104,105]})")))["choices"][0]["text"],
              "<hi>");
    EXPECT_EQ(whole(ask("/v1/completions", R"({"prompt":""})")).status, 400);
}

TEST_F(Dialect, ARawPromptMayWriteControlTokens) {
    script->on_submit = always_say("x");
    whole(ask("/v1/completions", R"({"prompt":"a<|im_end|>"})"));
    EXPECT_EQ(script->asked.poll()->prompt, (std::vector<Token>{'a', im_end}));
    whole(ask_chat("", "a<|im_end|>"));
    EXPECT_EQ(decoded(script->asked.poll()->prompt), "user: a<|im_end|>\nassistant: ");
}

TEST_F(Dialect, CompletionsStreamWithLogprobs) {
    script->on_submit = always_say("ab");
    Handled handled = ask("/v1/completions", R"({"prompt":"x","stream":true,"logprobs":0})");
    const auto events = std::get<std::unique_ptr<Answer>>(handled)->advance();
    ASSERT_EQ(events.size(), 2u);
    EXPECT_EQ(event(events[0])["choices"].dump(),
              R"([{"text":"ab","index":0,"logprobs":{"tokens":["a","b"],"token_logprobs":[-0.5,-0.5],)"
              R"("top_logprobs":[{},{}],"text_offset":[0,1]},"finish_reason":"stop"}])");
    EXPECT_EQ(events[1], "data: [DONE]\n\n");
}

TEST_F(Dialect, ModelsAreListed) {
    const auto at = [&](std::string path) {
        return std::get<HttpResponse>(handle_request(*service, {"GET", std::move(path), {}, ""}, {}));
    };
    const Json list = body_of(at("/v1/models"));
    EXPECT_EQ(list["object"], "list");
    EXPECT_EQ(list["data"][0]["id"], "maker/toy");
    EXPECT_EQ(list["data"][0]["context_length"], 4096);
    EXPECT_EQ(body_of(at("/v1/models/maker/toy"))["id"], "maker/toy");
    EXPECT_EQ(body_of(at("/v1/models/maker%2Ftoy"))["id"], "maker/toy");
    for (const std::string& name : {std::string("other"), std::string("maker"), std::string("%FF%FE"),
                                    std::string("%"), std::string(".."), std::string(5000, 'x')}) {
        const HttpResponse unknown = at("/v1/models/" + name);
        EXPECT_EQ(unknown.status, 404) << name;
        EXPECT_LT(unknown.body.size(), 1000u);
        EXPECT_EQ(body_of(unknown)["error"]["code"], "model_not_found") << name;
        EXPECT_EQ(body_of(unknown)["error"]["param"], "model") << name;
    }
}

TEST(Routes, UnknownPathsAndMethodsAreTold) {
    const auto status = [](std::string method, std::string path) {
        const auto wrong = check_route({std::move(method), std::move(path), {}, ""});
        return wrong ? wrong->status : 200;
    };
    EXPECT_EQ(status("POST", "/v1/chat/completions"), 200);
    EXPECT_EQ(status("GET", "/v1/chat/completions"), 405);
    EXPECT_EQ(status("DELETE", "/v1/models"), 405);
    EXPECT_EQ(status("HEAD", "/"), 200);
    EXPECT_EQ(status("GET", "/nothing"), 404);
    EXPECT_EQ(status("POST", "/v1/chat/completions/"), 404);
    EXPECT_EQ(status("GET", "/v1/models/"), 404);
    EXPECT_EQ(status("GET", "/v1/models/x"), 200);
    EXPECT_EQ(status("GET", "//"), 404);
    EXPECT_EQ(status("OPTIONS", "/v1/chat/completions"), 200);
}

}  // namespace
}  // namespace kapitsa

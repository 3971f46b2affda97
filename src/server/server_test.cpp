// The server on real sockets of the loopback address, with an engine that says what the test tells it.
#include "server/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/on_sockets_test.h"

namespace kapitsa {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using namespace std::chrono_literals;

TEST_F(OnSockets, AWholeAnswerIsOneResponse) {
    script->on_submit = always_say("hello");
    serve();
    const std::string response = exchange(post(chat_path, chat()));
    EXPECT_THAT(response, StartsWith("HTTP/1.1 200 OK\r\n"));
    EXPECT_THAT(response, HasSubstr("Content-Type: application/json\r\n"));
    EXPECT_THAT(response, HasSubstr("x-request-id: req_"));
    EXPECT_THAT(response, HasSubstr(R"("content":"hello")"));
}

TEST_F(OnSockets, AStreamIsAChunkAnEvent) {
    serve();
    RawClient client(server->port());
    client.send(post(chat_path, chat(R"("stream":true)")));
    const auto asked = receive(script->asked);
    ASSERT_TRUE(asked);
    // The head and the first event are there though the engine has not said a word.
    const std::string head = client.read_until("\r\n\r\n");
    EXPECT_THAT(head, StartsWith("HTTP/1.1 200 OK\r\n"));
    EXPECT_THAT(head, HasSubstr("Content-Type: text/event-stream"));
    EXPECT_THAT(head, HasSubstr("Transfer-Encoding: chunked\r\n"));
    EXPECT_THAT(head, Not(HasSubstr("Content-Length")));
    EXPECT_THAT(client.read_chunk(), HasSubstr(R"("delta":{"role":"assistant","content":""})"));
    for (const std::string word : {"one ", "zwei ", "три"}) {
        say(*asked, word);
        const std::string event = client.read_chunk();
        EXPECT_THAT(event, StartsWith("data: {"));
        EXPECT_THAT(event, EndsWith("}\n\n"));
        EXPECT_THAT(event, HasSubstr("\"content\":\"" + word + "\""));
    }
    finish(*asked);
    EXPECT_THAT(client.read_chunk(), HasSubstr(R"("finish_reason":"stop")"));
    EXPECT_EQ(client.read_chunk(), "data: [DONE]\n\n");
    EXPECT_EQ(client.read_chunk(), "");
    // And the connection can be used again.
    client.send(get("/health"));
    EXPECT_THAT(client.read_response(), EndsWith(R"({"status":"ok"})"));
}

TEST_F(OnSockets, AnOldClientGetsAStreamThatEndsWithTheConnection) {
    script->on_submit = always_say("hello");
    serve();
    RawClient client(server->port());
    const std::string body = chat(R"("stream":true)");
    client.send("POST /v1/chat/completions HTTP/1.0\r\nHost: localhost\r\nContent-Length: " +
                std::to_string(body.size()) + "\r\n\r\n" + body);
    const std::string all = client.read_to_end();
    EXPECT_THAT(all, Not(HasSubstr("chunked")));
    EXPECT_THAT(all, EndsWith("data: [DONE]\n\n"));
}

TEST_F(OnSockets, SeveralRequestsGoOverOneConnection) {
    script->on_submit = always_say("hello");
    serve();
    RawClient client(server->port());
    for (int i = 0; i < 3; ++i) {
        client.send(post(chat_path, chat()));
        EXPECT_THAT(client.read_response(), HasSubstr("hello"));
    }
    client.send(post(chat_path, chat()) + get("/health") + get("/health", "Connection: close\r\n"));
    EXPECT_THAT(client.read_response(), HasSubstr("hello"));
    EXPECT_THAT(client.read_response(), HasSubstr("ok"));
    EXPECT_THAT(client.read_to_end(), HasSubstr("Connection: close"));
}

TEST_F(OnSockets, AClientThatLeavesASilentStreamCancelsItsRequest) {
    serve();
    for (const char* fields : {R"("stream":true)", R"("stream":false)"}) {
        RawClient client(server->port());
        client.send(post(chat_path, chat(fields)));
        const auto asked = receive(script->asked);
        ASSERT_TRUE(asked);
        client.close();
        const auto cancelled = receive(script->cancelled);
        ASSERT_TRUE(cancelled) << fields;
        EXPECT_EQ(cancelled->id, asked->id);
        EXPECT_EQ(cancelled->keep_tokens, 0u);
    }
}

TEST_F(OnSockets, AClientThatLeavesMidStreamKeepsWhatWasSaid) {
    serve();
    RawClient client(server->port());
    client.send(post(chat_path, chat(R"("stream":true)")));
    const auto asked = receive(script->asked);
    ASSERT_TRUE(asked);
    say(*asked, "four");
    client.read_until("four");
    client.close();
    const auto cancelled = receive(script->cancelled);
    ASSERT_TRUE(cancelled);
    EXPECT_EQ(cancelled->keep_tokens, 4u);
}

TEST_F(OnSockets, ASilentStreamSaysThatItLives) {
    serve({.keep_alive_interval = 20ms});
    RawClient client(server->port());
    client.send(post(chat_path, chat(R"("stream":true)")));
    const auto asked = receive(script->asked);
    ASSERT_TRUE(asked);
    client.read_until("\r\n\r\n");
    EXPECT_THAT(client.read_chunk(), StartsWith("data: "));
    EXPECT_EQ(client.read_chunk(), ": keep-alive\n\n");
    EXPECT_EQ(client.read_chunk(), ": keep-alive\n\n");
    say(*asked, "x");
    finish(*asked);
    EXPECT_THAT(client.read_until("[DONE]"), HasSubstr(R"("content":"x")"));
}

TEST_F(OnSockets, AShutdownEndsAStreamInGoodForm) {
    serve();
    RawClient client(server->port());
    client.send(post(chat_path, chat(R"("stream":true)")));
    const auto asked = receive(script->asked);
    ASSERT_TRUE(asked);
    say(*asked, "half");
    client.read_until("half");
    const auto before = std::chrono::steady_clock::now();
    server->stop();
    EXPECT_LT(std::chrono::steady_clock::now() - before, 2s);
    const std::string rest = client.read_to_end();
    EXPECT_THAT(rest, HasSubstr(R"("finish_reason":"length")"));
    EXPECT_THAT(rest, HasSubstr("data: [DONE]\n\n"));
    EXPECT_THAT(rest, EndsWith("0\r\n\r\n"));
    EXPECT_EQ(receive(script->cancelled)->keep_tokens, 4u);
    say(*asked, "the engine may still speak when nobody is left");
}

TEST_F(OnSockets, AShutdownWaitsForNobody) {
    serve({.send_buffer_bytes = 4096});
    RawClient idle(server->port()), halfway(server->port()), stalled(server->port(), 4096),
        whole(server->port());
    halfway.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{");
    whole.send(post(chat_path, chat()));
    ASSERT_TRUE(receive(script->asked));
    stalled.send(post(chat_path, chat(R"("stream":true)")));
    const auto asked = receive(script->asked);
    ASSERT_TRUE(asked);
    say_much(*asked);
    stalled.read(1000);  // it is being written now
    const auto before = std::chrono::steady_clock::now();
    server->stop();
    EXPECT_LT(std::chrono::steady_clock::now() - before, 2s);
    EXPECT_EQ(idle.read_to_end(), "");
    EXPECT_EQ(halfway.read_to_end(), "");
    EXPECT_THAT(whole.read_to_end(), HasSubstr("503 Service Unavailable"));
}

TEST_F(OnSockets, PathsAndMethodsThatAreNotThereAreTold) {
    serve();
    EXPECT_THAT(exchange(get("/nothing")), StartsWith("HTTP/1.1 404 "));
    EXPECT_THAT(exchange(get(chat_path)), StartsWith("HTTP/1.1 405 "));
    EXPECT_THAT(exchange(get(chat_path)), HasSubstr("Allow: POST, OPTIONS\r\n"));
    EXPECT_THAT(exchange(post("/v1/nothing", "{}")), StartsWith("HTTP/1.1 404 "));
    EXPECT_THAT(exchange(get("/health?probe=1")), StartsWith("HTTP/1.1 200 "));
}

TEST_F(OnSockets, HeadIsGetWithoutTheBody) {
    serve();
    RawClient client(server->port());
    client.send("HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n" + get("/health"));
    const std::string head = client.read_until("\r\n\r\n");
    EXPECT_THAT(head, StartsWith("HTTP/1.1 200 "));
    EXPECT_THAT(head, Not(HasSubstr("Content-Length: 0")));
    EXPECT_THAT(client.read_response(), StartsWith("HTTP/1.1 200 "));
}

TEST_F(OnSockets, APageOfThisMachineMayAsk) {
    script->on_submit = always_say("hello");
    serve({.api_key = "secret"});
    RawClient client(server->port());
    client.send(
        "OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost:3000\r\n"
        "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: authorization\r\n\r\n");
    const std::string preflight = client.read_until("\r\n\r\n");
    EXPECT_THAT(preflight, StartsWith("HTTP/1.1 204 "));
    EXPECT_THAT(preflight, HasSubstr("Access-Control-Allow-Origin: http://localhost:3000\r\n"));
    EXPECT_THAT(preflight, HasSubstr("Access-Control-Allow-Headers: authorization\r\n"));
    client.send(post(chat_path, chat(R"("stream":true)"),
                     "Origin: http://localhost:3000\r\nAuthorization: Bearer secret\r\n"));
    EXPECT_THAT(client.read_until("\r\n\r\n"),
                HasSubstr("Access-Control-Allow-Origin: http://localhost:3000\r\n"));
}

TEST_F(OnSockets, ManyStreamsAtOnceAreKeptApart) {
    script->on_submit = [](const Submit& request) {
        return always_say("seed " + std::to_string(request.sampling.seed) + ".")(request);
    };
    serve();
    std::vector<std::thread> clients;
    for (int i = 0; i < 8; ++i)
        clients.emplace_back([&, i] {
            for (int round = 0; round < 5; ++round) {
                const int seed = i * 100 + round;
                RawClient client(server->port());
                client.send(post(chat_path, chat(R"("stream":true,"seed":)" + std::to_string(seed))));
                EXPECT_THAT(client.read_until("[DONE]"), HasSubstr("\"seed " + std::to_string(seed) + ".\""));
            }
        });
    for (std::thread& client : clients) client.join();
}

TEST_F(OnSockets, AnotherMachineIsServedOnlyWithAKey) {
    const auto refused = Server::start(*service, {.host = "0.0.0.0", .port = 0});
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, HasSubstr("--api-key"));
    EXPECT_TRUE(Server::start(*service, {.host = "0.0.0.0", .port = 0, .api_key = "secret"}));
    EXPECT_FALSE(Server::start(*service, {.host = "no such host", .port = 0}));
}

TEST_F(OnSockets, APortThatIsTakenIsAnError) {
    serve();
    const auto second = Server::start(*service, {.port = server->port()});
    ASSERT_FALSE(second);
    EXPECT_THAT(second.error().message, HasSubstr("cannot listen on 127.0.0.1:"));
    EXPECT_EQ(server->url(), "http://127.0.0.1:" + std::to_string(server->port()));
}

}  // namespace
}  // namespace kapitsa

// Clients that mean no good, or do not know better: none may hold a place that others need, for long or at
// all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "server/on_sockets_test.h"

namespace kapitsa {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using namespace std::chrono_literals;

class Hostile : public OnSockets {};

TEST_F(Hostile, AReaderThatTakesNothingIsCutOff) {
    serve({.send_buffer_bytes = 4096, .write_timeout = 100ms});
    RawClient client(server->port(), 4096);
    client.send(post(chat_path, chat(R"("stream":true)")));
    const auto asked = receive(script->asked);
    ASSERT_TRUE(asked);
    say_much(*asked);
    EXPECT_TRUE(receive(script->cancelled));
}

TEST_F(Hostile, ABodyThatIsTooLargeIsRefusedBeforeItIsRead) {
    serve({.body_bytes = 1000});
    RawClient client(server->port());
    client.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000000\r\n\r\n");
    client.send(std::string(9'000'000, 'x'));  // as clients do, not looking at the answer
    const std::string response = client.read_response();
    EXPECT_THAT(response, StartsWith("HTTP/1.1 413 "));
    EXPECT_THAT(response, HasSubstr("request_too_large"));
    EXPECT_THAT(response, HasSubstr("Connection: close"));
    RawClient chunks(server->port());
    chunks.send(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n" +
        std::string(2000, 'x') + "\r\n0\r\n\r\n");
    EXPECT_THAT(chunks.read_response(), StartsWith("HTTP/1.1 413 "));
}

TEST_F(Hostile, BodiesTogetherAreBoundedAndOneThatIsAnsweredNoLongerCounts) {
    serve({.all_bodies_bytes = 150'000});
    const std::string large = post(chat_path, chat(R"("user":")" + std::string(100'000, 'x') + "\""));
    RawClient first(server->port()), second(server->port());
    for (RawClient* client : {&first, &second}) {  // both answers are under way: their bodies are gone
        client->send(large);
        ASSERT_TRUE(receive(script->asked));
    }
    RawClient third(server->port()), fourth(server->port());
    for (RawClient* client : {&third, &fourth}) client->send(large.substr(0, large.size() - 1));
    bool third_first = false, refused = false;  // or both
    for (int i = 0; i < 1000 && !refused; ++i) {
        third_first = third.has_received_within(5ms);
        refused = third_first || fourth.has_received_within(5ms);
    }
    ASSERT_TRUE(refused);
    const std::string response = (third_first ? third : fourth).read_response();
    EXPECT_THAT(response, StartsWith("HTTP/1.1 503 "));
    EXPECT_THAT(response, HasSubstr("Retry-After: 2\r\n"));
    third.close();
    fourth.close();
    script->on_submit = always_say("hello");
    bool served = false;  // soon after they have gone
    for (int i = 0; i < 1000 && !served; ++i) served = exchange(large).starts_with("HTTP/1.1 200 ");
    EXPECT_TRUE(served);
}

TEST_F(Hostile, OnlyPostsHaveLargeBodies) {
    serve({.api_key = "secret"});
    for (const char* method : {"GET /health", "OPTIONS /v1/completions", "HEAD /"})
        for (const char* length : {"Content-Length: 1000000", "Transfer-Encoding: chunked"})
            EXPECT_THAT(
                exchange(std::string(method) + " HTTP/1.1\r\nHost: localhost\r\nx-api-key: secret\r\n" +
                         length + "\r\n\r\n"),
                StartsWith("HTTP/1.1 413 "))
                << method << length;
    EXPECT_THAT(exchange("GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}"),
                StartsWith("HTTP/1.1 200 "));
}

TEST_F(Hostile, AHeaderThatIsTooLongIsRefused) {
    serve();
    EXPECT_THAT(exchange(get("/health", "X-Long: " + std::string(40'000, 'x') + "\r\n")),
                StartsWith("HTTP/1.1 431 "));
    EXPECT_THAT(exchange(get("/health", "X-Long: " + std::string(30'000, 'x') + "\r\n")),
                StartsWith("HTTP/1.1 200 "));
}

TEST_F(Hostile, WhatIsNotHttpIsRefused) {
    serve();
    for (const char* bytes :
         {"hello\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "GET /\x01 HTTP/1.1\r\n\r\n",
          "\x16\x03\x01\x02\x00\x01\r\n\r\n",
          "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
          "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: "
          "6\r\n\r\n",
          "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
          "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"}) {
        RawClient client(server->port());
        client.send(bytes);
        const std::string response = client.read_to_end();
        EXPECT_THAT(response, StartsWith("HTTP/1.1 400 ")) << bytes;
        EXPECT_THAT(response, HasSubstr(R"("type":"invalid_request_error")")) << bytes;
    }
}

TEST_F(Hostile, ABodyWhoseEndIsNotKnownHidesNoRequest) {
    serve();
    for (const char* encoding : {"gzip", "gzip, chunked", "identity", "chunked, chunked"}) {
        RawClient client(server->port());
        client.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: " +
                    std::string(encoding) + "\r\n\r\nGET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n");
        const std::string response = client.read_to_end();
        EXPECT_TRUE(response.starts_with("HTTP/1.1 501 ") || response.starts_with("HTTP/1.1 400 "))
            << encoding << ": " << response;
        EXPECT_EQ(response.find("HTTP/1.1 200"), std::string::npos) << encoding;
    }
}

TEST_F(Hostile, ARequestThatNeverEndsIsGivenUp) {
    serve({.idle_timeout = 50ms, .header_timeout = 50ms, .body_timeout = 50ms});
    RawClient silent(server->port()), slow_head(server->port()), slow_body(server->port());
    slow_head.send("GET /health HT");
    slow_body.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{");
    EXPECT_EQ(silent.read_to_end(), "");
    EXPECT_EQ(slow_head.read_to_end(), "");
    EXPECT_EQ(slow_body.read_to_end(), "");
}

TEST_F(Hostile, AStrangeHostAStrangePageAndAMissingKeyAreRefused) {
    serve({.api_key = "secret"});
    RawClient client(server->port());
    client.send("GET /health HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    EXPECT_THAT(client.read_response(), StartsWith("HTTP/1.1 403 "));
    client.send(get("/health", "Origin: https://evil.example\r\n"));
    const std::string refused = client.read_response();
    EXPECT_THAT(refused, StartsWith("HTTP/1.1 403 "));
    EXPECT_THAT(refused, Not(HasSubstr("Access-Control")));
    client.send(get("/v1/models"));
    EXPECT_THAT(client.read_response(), StartsWith("HTTP/1.1 401 "));
    client.send(get("/v1/models", "Authorization: Bearer secret\r\n"));
    EXPECT_THAT(client.read_response(), StartsWith("HTTP/1.1 200 "));
    client.send(get("/health"));
    EXPECT_THAT(client.read_response(), StartsWith("HTTP/1.1 200 "));
    client.send(post(chat_path, chat()));  // refused with its body unread: the connection ends
    EXPECT_THAT(client.read_to_end(), StartsWith("HTTP/1.1 401 "));
}

TEST_F(Hostile, AClientThatSendsOnAndDiesGivesItsPlaceBack) {
    serve();
    const std::string more = post(chat_path, chat(R"("user":")" + std::string(100'000, 'x') + "\""));
    for (const bool reads : {true, false}) {  // it ends with FIN, and with RST
        RawClient client(server->port());
        client.send(post(chat_path, chat(R"("stream":true)")));
        const auto asked = receive(script->asked);
        ASSERT_TRUE(asked);
        if (reads) {
            client.read_until("\r\n\r\n");
            client.read_chunk();
        }
        for (int i = 0; i < 20; ++i) ASSERT_TRUE(client.send(more));
        client.close();
        const auto cancelled = receive(script->cancelled);
        ASSERT_TRUE(cancelled) << reads;
        EXPECT_EQ(cancelled->id, asked->id);
    }
    EXPECT_FALSE(script->asked.poll());
}

TEST_F(Hostile, WhatIsSentBesideAnAnswerDoesNotHarmIt) {
    serve();
    for (const char* fields : {R"("stream":true)", R"("stream":false)"}) {
        RawClient client(server->port());
        client.send(post(chat_path, chat(fields)));
        const auto asked = receive(script->asked);
        ASSERT_TRUE(asked);
        say(*asked, "first half");
        // Beyond what the sockets keep, so that the server must have thrown some away when this returns.
        ASSERT_TRUE(client.send(std::string(16u << 20, 'x')));
        say(*asked, " and the rest");
        finish(*asked);
        const std::string all = client.read_to_end();
        EXPECT_THAT(all, HasSubstr("first half")) << fields;
        EXPECT_THAT(all, HasSubstr(" and the rest")) << fields;
        EXPECT_THAT(all, HasSubstr(R"("finish_reason":"stop")")) << fields;
    }
}

TEST_F(Hostile, ANextRequestBesideAStreamIsKept) {
    serve();
    RawClient client(server->port());
    client.send(post(chat_path, chat(R"("stream":true)")));
    const auto asked = receive(script->asked);
    ASSERT_TRUE(asked);
    client.send(post(chat_path, chat(R"("user":")" + std::string(40'000, 'x') + "\"")));
    finish(*asked);
    client.read_until("[DONE]\n\n\r\n0\r\n\r\n");
    const auto next = receive(script->asked);
    ASSERT_TRUE(next);
    say(*next, "here");
    finish(*next);
    EXPECT_THAT(client.read_response(), HasSubstr("here"));
}

/// Sends `byte` again and again, with no pause that would count as silence, until the server hangs up.
void drip(RawClient& client, char byte) {
    for (int i = 0; i < 2000; ++i) {
        if (client.ends_within(5ms)) return;
        client.send(std::string(1, byte));
    }
    ADD_FAILURE() << "the server waits for ever";
}

TEST_F(Hostile, ARequestThatDripsIsGivenUp) {
    serve({.header_timeout = 50ms, .body_timeout = 50ms});
    RawClient head(server->port()), body(server->port());
    head.send("GET /health HTTP/1.1\r\nX: ");
    drip(head, 'x');
    body.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n");
    drip(body, 'x');
}

TEST_F(Hostile, ThoseWhoOnlyOccupyAPlaceLoseIt) {
    script->on_submit = always_say("hello");
    serve({.connections = 8});
    std::vector<std::unique_ptr<RawClient>> idle;
    for (int i = 0; i < 200; ++i) {
        idle.push_back(std::make_unique<RawClient>(server->port()));
        idle.back()->send("POST /v1/chat/completions HTTP/1.1\r\nHost: lo");
    }
    EXPECT_THAT(exchange(post(chat_path, chat())), HasSubstr("hello"));
    EXPECT_EQ(idle.front()->read_to_end(), "");
}

TEST_F(Hostile, ThoseWhoAreOwedAnAnswerKeepTheirPlace) {
    serve({.connections = 2});
    RawClient first(server->port()), second(server->port());
    first.send(post(chat_path, chat()));
    const auto asked = receive(script->asked);
    second.send(post(chat_path, chat()));
    ASSERT_TRUE(asked && receive(script->asked));
    {
        RawClient third(server->port());
        const std::string refused = third.read_response();
        EXPECT_THAT(refused, StartsWith("HTTP/1.1 503 "));
        EXPECT_THAT(refused, HasSubstr("Retry-After: 2\r\n"));
    }
    say(*asked, "hello");
    finish(*asked);
    EXPECT_THAT(first.read_response(), HasSubstr("hello"));
    bool served = false;  // soon after its answer was taken, the first is idle and makes room
    for (int i = 0; i < 1000 && !served; ++i) served = exchange(get("/health")).starts_with("HTTP/1.1 200 ");
    EXPECT_TRUE(served);
    EXPECT_EQ(first.read_to_end(), "");
}

TEST_F(Hostile, AReaderThatTakesNothingHoldsNobodyUp) {
    serve({.send_buffer_bytes = 4096});
    std::vector<std::unique_ptr<RawClient>> stalled;
    for (int i = 0; i < 8; ++i) {
        stalled.push_back(std::make_unique<RawClient>(server->port(), 4096));
        stalled.back()->send(post(chat_path, chat(R"("stream":true)")));
        const auto asked = receive(script->asked);
        ASSERT_TRUE(asked);
        say_much(*asked);
    }
    script->on_submit = always_say("hello");
    EXPECT_THAT(exchange(post(chat_path, chat())), HasSubstr("hello"));
    EXPECT_FALSE(script->cancelled.poll());
}

TEST_F(Hostile, LargeRequestsThatTakeLongHoldNobodyUp) {
    // Four of them, more than there are threads of any kind, stand still in the engine's submit.
    std::atomic<int> held = 0;
    std::promise<void> release;
    const std::shared_future<void> released = release.get_future();
    script->on_submit = [&](const Submit& request) -> Status {
        if (request.sampling.seed == 1) {
            ++held;
            released.wait();
        }
        return always_say("hello")(request);
    };
    serve();
    const std::string large =
        post(chat_path, chat(R"("seed":1,"user":")" + std::string(400'000, 'x') + "\""));
    std::vector<std::unique_ptr<RawClient>> clients;
    for (int i = 0; i < 4; ++i) {
        clients.push_back(std::make_unique<RawClient>(server->port()));
        EXPECT_TRUE(clients.back()->send(large));
    }
    for (int i = 0; i < 10'000 && held < 2; ++i) std::this_thread::sleep_for(1ms);
    EXPECT_EQ(held, 2);
    EXPECT_THAT(exchange(get("/health")), StartsWith("HTTP/1.1 200 "));
    EXPECT_THAT(exchange(post(chat_path, chat())), HasSubstr("hello"));
    clients.back()->close();  // it has gone before its request was read
    release.set_value();
    clients.pop_back();
    for (const auto& client : clients) EXPECT_THAT(client->read_response(), HasSubstr("hello"));
    server->stop();  // what it still reads looks at the promise
}

TEST_F(Hostile, AnExpectationIsReadInAnyCaseAndOnlyThatOneIsMet) {
    script->on_submit = always_say("hello");
    serve();
    RawClient client(server->port());
    for (const char* asks : {"Expect: 100-continue\r\n", "expect: 100-Continue\r\n"}) {
        const std::string request = post(chat_path, chat(), asks);
        const auto body = request.find("\r\n\r\n") + 4;
        client.send(request.substr(0, body));
        EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
        client.send(request.substr(body));
        EXPECT_THAT(client.read_response(), HasSubstr("hello"));
    }
    client.send(get("/health", "Expect: coffee\r\n"));
    EXPECT_THAT(client.read_response(), StartsWith("HTTP/1.1 417 Expectation Failed\r\n"));
    client.send(post(chat_path, chat(), "Expect: 100-continue, coffee\r\n"));
    const std::string refused = client.read_to_end();
    EXPECT_THAT(refused, StartsWith("HTTP/1.1 417 "));
    EXPECT_THAT(refused, HasSubstr(R"("type":"invalid_request_error")"));
}

TEST_F(Hostile, AnOldRequestNeedsNoHostAndATargetMayNameIt) {
    serve();
    const std::pair<const char*, const char*> cases[] = {
        {"GET /v1/models HTTP/1.0\r\n\r\n", "200"},
        {"GET /v1/models HTTP/1.0\r\nHost: evil.example\r\n\r\n", "403"},
        {"GET /v1/models HTTP/1.0\r\nOrigin: https://evil.example\r\n\r\n", "403"},
        {"GET /v1/models HTTP/1.1\r\n\r\n", "400"},
        {"GET http://localhost:1/v1/models?x=1 HTTP/1.1\r\nHost: localhost\r\n\r\n", "200"},
        {"GET http://localhost/v1/models HTTP/1.0\r\n\r\n", "200"},
        {"GET http://localhost/v1/models HTTP/1.1\r\n\r\n", "400"},
        {"GET http://evil.example/v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n", "403"},
        {"GET http://evil.example/v1/models HTTP/1.0\r\n\r\n", "403"},
        {"GET http://localhost/v1/models HTTP/1.1\r\nHost: evil.example\r\n\r\n", "403"},
        {"GET http://me@localhost/v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n", "403"},
        {"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", "204"},
        {"GET v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n", "400"},
        {"CONNECT localhost:443 HTTP/1.1\r\nHost: localhost\r\n\r\n", "400"},
    };
    for (const auto& [request, status] : cases)
        EXPECT_THAT(exchange(request), StartsWith(std::string("HTTP/1.1 ") + status)) << request;
}

}  // namespace
}  // namespace kapitsa

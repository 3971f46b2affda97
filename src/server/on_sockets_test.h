// For tests: the server on real sockets of the loopback address, with an engine that says what the test tells
// it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "server/fake_engine_test.h"
#include "server/raw_client_test.h"
#include "server/server.h"

namespace kapitsa {

constexpr std::string_view chat_path = "/v1/chat/completions";

/// A request with one message, and these fields more.
inline std::string chat(std::string_view fields = "") {
    return R"({"messages":[{"role":"user","content":"hi"}])" +
           (fields.empty() ? "" : "," + std::string(fields)) + "}";
}

class OnSockets : public testing::Test {
protected:
    void serve(ServerOptions options = {}) {
        options.port = 0;
        auto started = Server::start(*service, options);
        ASSERT_TRUE(started) << started.error().message;
        server = std::move(*started);
    }
    std::string exchange(const std::string& request) {
        RawClient client(server->port());
        EXPECT_TRUE(client.send(request));
        return client.read_response();
    }

    std::shared_ptr<Script> script = std::make_shared<Script>();
    std::unique_ptr<ModelService> service = toy_service(script);
    std::unique_ptr<Server> server;
};

}  // namespace kapitsa

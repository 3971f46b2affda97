// For tests: a dialect without a socket, with an engine that says what the test tells it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "server/fake_engine_test.h"
#include "server/router.h"

namespace kapitsa {

class Dialect : public testing::Test {
protected:
    Handled ask(const std::string& path, const std::string& body) {
        return handle_request(*service, {"POST", path, {{"Host", "localhost"}}, body}, {});
    }
    Handled ask_chat(const std::string& fields, const std::string& content = "hi") {
        return ask("/v1/chat/completions", R"({"messages":[{"role":"user","content":")" + content + R"("}])" +
                                               (fields.empty() ? "" : "," + fields) + "}");
    }

    /// The response, when the answer needs no more of the engine.
    static HttpResponse whole(Handled handled) {
        if (auto* response = std::get_if<HttpResponse>(&handled)) return *response;
        auto& answer = std::get<std::unique_ptr<Answer>>(handled);
        answer->advance();
        EXPECT_TRUE(answer->finished());
        return answer->response();
    }
    static Json body_of(const HttpResponse& response) {
        auto json = parse_json(response.body);
        EXPECT_TRUE(json) << response.body;
        return json ? *json : Json();
    }
    /// The data of an event.
    static Json event(const std::string& frame) {
        EXPECT_TRUE(frame.starts_with("data: ")) << frame;
        auto json = parse_json(std::string_view(frame).substr(6, frame.size() - 8));
        EXPECT_TRUE(json) << frame;
        return json ? *json : Json();
    }

    std::shared_ptr<Script> script = std::make_shared<Script>();
    std::unique_ptr<ModelService> service = toy_service(script);
};

}  // namespace kapitsa

#include "server/access.h"

#include <gtest/gtest.h>

namespace kapitsa {
namespace {

HttpRequest request(std::vector<std::pair<std::string, std::string>> headers,
                    std::string path = "/v1/models") {
    return {"GET", std::move(path), std::move(headers), ""};
}

int status(const AccessRules& rules, const HttpRequest& asked) {
    const auto wrong = check_access(rules, asked);
    return wrong ? wrong->status : 200;
}

TEST(Access, LoopbackNamesAreKnown) {
    for (const char* host : {"localhost", "LocalHost:80", "localhost.", "a.localhost", "127.0.0.1:8000",
                             "127.9.9.9", "[::1]", "[::1]:8000"})
        EXPECT_TRUE(is_loopback_host(host)) << host;
    for (const char* host :
         {"", "localhost.evil.example", "evil.example", "127.0.0.1.evil.example", "128.0.0.1", "[::2]",
          "[::1", "::1", "localhost:80x", "localhost:123456", "[127.0.0.1", "0.0.0.0"})
        EXPECT_FALSE(is_loopback_host(host)) << host;
}

TEST(Access, ANameThatWasMadeToPointHereIsRefused) {
    const AccessRules rules{.bound_host = "127.0.0.1"};
    EXPECT_EQ(status(rules, request({{"Host", "127.0.0.1:8000"}})), 200);
    EXPECT_EQ(status(rules, request({{"Host", "evil.example:8000"}})), 403);
    EXPECT_EQ(status(rules, request({{"Host", "192.168.1.2"}})), 403);
    EXPECT_EQ(status(rules, request({})), 400);
    EXPECT_EQ(status(rules, request({{"Host", ""}})), 403);
    EXPECT_EQ(status(rules, request({{"Host", "localhost"}, {"host", "evil.example"}})), 400);
    const AccessRules wide{.bound_host = "0.0.0.0", .any_address = true, .hosts = {"box.lan"}};
    EXPECT_EQ(status(wide, request({{"Host", "192.168.1.2:8000"}})), 200);
    EXPECT_EQ(status(wide, request({{"Host", "Box.lan:8000"}})), 200);
    EXPECT_EQ(status(wide, request({{"Host", "evil.example"}})), 403);
    const AccessRules six{.bound_host = "fd00::2"};
    EXPECT_EQ(status(six, request({{"Host", "[fd00::2]:8000"}})), 200);
}

TEST(Access, APageFromElsewhereIsRefused) {
    const AccessRules rules{.bound_host = "127.0.0.1", .origins = {"https://app.example"}};
    const auto from = [&](std::string origin) {
        return status(rules, request({{"Host", "localhost"}, {"Origin", std::move(origin)}}));
    };
    EXPECT_EQ(from("http://localhost:3000"), 200);
    EXPECT_EQ(from("https://127.0.0.1"), 200);
    EXPECT_EQ(from("https://app.example"), 200);
    EXPECT_EQ(from("https://evil.example"), 403);
    EXPECT_EQ(from("https://app.example.evil.example"), 403);
    EXPECT_EQ(from("http://localhost.evil.example"), 403);
    EXPECT_EQ(from("http://localhost@evil.example"), 403);
    EXPECT_EQ(from("null"), 403);
    EXPECT_EQ(from(""), 403);
}

TEST(Access, TheKeyIsTakenInEitherHeaderAndAskedOfAllButHealth) {
    const AccessRules rules{.bound_host = "127.0.0.1", .api_key = "secret"};
    const auto with = [&](std::string name, std::string value, std::string path = "/v1/models") {
        return status(rules,
                      request({{"Host", "localhost"}, {std::move(name), std::move(value)}}, std::move(path)));
    };
    EXPECT_EQ(with("Authorization", "Bearer secret"), 200);
    EXPECT_EQ(with("authorization", "bearer secret"), 200);
    EXPECT_EQ(with("X-Api-Key", "secret"), 200);
    for (const char* wrong :
         {"Bearer secre", "Bearer secret2", "Bearer ", "secret", "Basic secret", "Bearer tecret"})
        EXPECT_EQ(with("Authorization", wrong), 401) << wrong;
    EXPECT_EQ(with("X-Api-Key", ""), 401);
    EXPECT_EQ(with("Accept", "*/*"), 401);
    EXPECT_EQ(with("Accept", "*/*", "/health"), 200);
}

TEST(Access, ABrowserIsToldWhatItsPageMayRead) {
    const AccessRules rules{.bound_host = "127.0.0.1"};
    HttpRequest asked = request({{"Host", "localhost"},
                                 {"Origin", "http://localhost:3000"},
                                 {"Access-Control-Request-Headers", "authorization,content-type"}});
    EXPECT_EQ(cors_headers(rules, asked).size(), 3u);
    asked.method = "OPTIONS";
    const auto headers = cors_headers(rules, asked);
    ASSERT_EQ(headers.size(), 6u);
    EXPECT_EQ(headers[0].second, "http://localhost:3000");
    EXPECT_EQ(headers[5].second, "authorization,content-type");
    EXPECT_TRUE(cors_headers(rules, request({{"Host", "localhost"}})).empty());
    EXPECT_TRUE(cors_headers(rules, request({{"Origin", "https://evil.example"}})).empty());
}

}  // namespace
}  // namespace kapitsa

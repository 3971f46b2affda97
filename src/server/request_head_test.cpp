#include "server/request_head.h"

#include <gtest/gtest.h>

namespace kapitsa {
namespace {

/// "authority path", or the status of the refusal.
std::string read(std::string_view target) {
    HttpRequest request;
    const auto read = read_target(target, request);
    return read ? request.authority + " " + request.path : std::to_string(read.error().status);
}

TEST(RequestHead, ATargetIsAPathOrNamesAHostBeforeIt) {
    EXPECT_EQ(read("/"), " /");
    EXPECT_EQ(read("/v1/models?a=/b#c"), " /v1/models");
    EXPECT_EQ(read("//host/path"), " //host/path");
    EXPECT_EQ(read("*"), " *");
    EXPECT_EQ(read("http://localhost:8000/v1/models?x"), "localhost:8000 /v1/models");
    EXPECT_EQ(read("HTTPS://[::1]/health"), "[::1] /health");
    EXPECT_EQ(read("http://localhost"), "localhost /");
    EXPECT_EQ(read("http://localhost?x=/y"), "localhost /");
    EXPECT_EQ(read("http://a@b/c"), "a@b /c");  // no such host is allowed; see the tests of access
}

TEST(RequestHead, AnyOtherTargetIsRefused) {
    for (const char* target : {"", "v1/models", "localhost:443", "http:", "http:/v1/models", "http://",
                               "http:///v1/models", "ftp://localhost/", "*/x", "?x", "\\v1"})
        EXPECT_EQ(read(target), "400") << target;
}

/// "waits", "goes on", or the status of the refusal.
std::string expecting(std::vector<std::pair<std::string, std::string>> headers, bool http_1_0 = false) {
    const auto waits = waits_for_continue(
        {.method = "POST", .path = "/", .headers = std::move(headers), .body = "", .http_1_0 = http_1_0});
    if (!waits) return std::to_string(waits.error().status);
    return *waits ? "waits" : "goes on";
}

TEST(RequestHead, AnExpectationIsReadInAnyCase) {
    EXPECT_EQ(expecting({}), "goes on");
    EXPECT_EQ(expecting({{"Expect", ""}}), "goes on");
    for (const char* value :
         {"100-continue", "100-Continue", "100-CONTINUE", " 100-continue ,", ",100-continue"})
        EXPECT_EQ(expecting({{"eXPECT", value}}), "waits") << value;
    EXPECT_EQ(expecting({{"Expect", "100-continue"}, {"Expect", "100-continue"}}), "waits");
}

TEST(RequestHead, AnExpectationThatNobodyMeetsIsRefused) {
    for (const char* value : {"200-ok", "100-continue, coffee", "100-continue=1", "100", "\"100-continue\""})
        EXPECT_EQ(expecting({{"Expect", value}}), "417") << value;
    EXPECT_EQ(expecting({{"Expect", "100-continue"}, {"Expect", "coffee"}}), "417");
    EXPECT_EQ(expecting({{"Expect", "coffee"}}, true), "goes on");
}

}  // namespace
}  // namespace kapitsa

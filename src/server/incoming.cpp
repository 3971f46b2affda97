#include "server/incoming.h"

#include "server/request_head.h"
#include "server/router.h"

namespace kapitsa {

namespace http = boost::beast::http;

namespace {

// Of requests other than POST, which have no use for one; some clients send "{}" all the same.
constexpr std::uint64_t idle_body_bytes = 64u << 10;

}  // namespace

Incoming::Incoming(const ServerOptions& options, std::atomic<std::size_t>& all_bodies)
    : options_(options), all_bodies_(all_bodies) {
    parser.header_limit(static_cast<std::uint32_t>(options.header_bytes));
    parser.body_limit(options.body_bytes);
}

std::optional<ApiError> Incoming::take_head(const AccessRules& access) {
    const auto& head = parser.get();
    request.method = std::string(head.method_string());
    request.http_1_0 = head.version() < 11;
    for (const auto& field : head)
        request.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
    if (is_unframed()) return ApiError{501, "bodies may have the Transfer-Encoding chunked, and no other"};
    const auto target = read_target({head.target().data(), head.target().size()}, request);
    if (!target) return target.error();
    if (auto wrong = check_access(access, request)) return wrong;
    if (auto wrong = check_route(request)) return wrong;
    const auto length = parser.content_length();
    if (request.method != "POST" && body_left() && (!length || *length > idle_body_bytes))
        return ApiError{
            413, "a " + excerpt(request.method) + " request has no such body", {}, "request_too_large"};
    const auto waits = kapitsa::waits_for_continue(request);
    if (!waits) return waits.error();
    waits_for_continue_ = *waits;
    return std::nullopt;
}

std::optional<ApiError> Incoming::count_body() {
    const std::size_t more = body_bytes() - counted_;
    counted_ += more;
    if (all_bodies_.fetch_add(more) + more <= options_.all_bodies_bytes) return std::nullopt;
    return ApiError{503, "too many large requests are being read; try again", {}, "overloaded", 2};
}

void Incoming::drop_body() {
    request.body = std::string();
    all_bodies_ -= std::exchange(counted_, 0);
}

std::optional<ApiError> Incoming::refusal(const boost::system::error_code& error) const {
    if (error == http::error::end_of_stream || error == http::error::partial_message) return std::nullopt;
    if (error == http::error::header_limit || error == http::error::buffer_overflow)
        return ApiError{431, "the header has more than " + std::to_string(options_.header_bytes) + " bytes"};
    if (error == http::error::body_limit)
        return ApiError{413,
                        "the body has more than " + std::to_string(options_.body_bytes) + " bytes",
                        {},
                        "request_too_large"};
    if (error.category() == http::make_error_code(http::error::end_of_stream).category())
        return ApiError{400, "this is not HTTP as we understand it: " + error.message()};
    return std::nullopt;
}

}  // namespace kapitsa

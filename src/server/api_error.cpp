#include "server/api_error.h"

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/utf8.h"

namespace kapitsa {
namespace {

const char* openai_type(int status) {
    switch (status) {
        case 401: return "authentication_error";
        case 403: return "permission_error";
        case 500: return "server_error";
        case 503: return "overloaded_error";
        default: return "invalid_request_error";
    }
}

Json or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

}  // namespace

std::string excerpt(std::string_view words) {
    constexpr std::size_t bytes_most = 100;
    if (words.size() <= bytes_most) return std::string(words);
    return std::string(complete_utf8(words.substr(0, bytes_most))) + "...";
}

ApiError api_error(const Error& error) {
    switch (error.fault) {
        case Fault::invalid_input: return {400, error.message};
        case Fault::unsupported: return {400, error.message, {}, "unsupported"};
        case Fault::out_of_memory: return {503, error.message, {}, "overloaded", 2};
        case Fault::corrupt_file: return {500, error.message, {}, "corrupt_file"};
        case Fault::device: return {500, error.message, {}, "device_error"};
        case Fault::cancelled: return {503, error.message, {}, "cancelled"};
    }
    return {500, error.message};
}

std::string openai_error_body(const ApiError& error) {
    return dump_json(Json{{"error",
                           {{"message", error.message},
                            {"type", openai_type(error.status)},
                            {"param", or_null(error.param)},
                            {"code", or_null(error.code)}}}});
}

HttpResponse openai_error(const ApiError& error) {
    HttpResponse response{error.status, openai_error_body(error)};
    if (error.retry_after_seconds > 0)
        response.headers.emplace_back("Retry-After", std::to_string(error.retry_after_seconds));
    if (!error.allow.empty()) response.headers.emplace_back("Allow", error.allow);
    if (error.status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
    return response;
}

}  // namespace kapitsa

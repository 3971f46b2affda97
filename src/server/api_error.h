// What is wrong with a request, for programs and for people, before a dialect gives it a form.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "server/http.h"

namespace kapitsa {

struct ApiError {
    int status = 400;
    std::string message;
    std::string param = {};  // the offending field, as a path: "messages[2].content"
    std::string code = {};   // for programs: "model_not_found", "context_length_exceeded"
    int retry_after_seconds = 0;
    std::string allow = {};  // of a 405
};

/// A value, or what is wrong with the request.
template <typename T>
using Parsed = std::expected<T, ApiError>;

/// A field that cannot be what it is.
[[nodiscard]] inline std::unexpected<ApiError> bad_field(std::string param, std::string message,
                                                         std::string code = {}) {
    return std::unexpected(ApiError{400, std::move(message), std::move(param), std::move(code)});
}

/// The client's own words, for a message: the first of them, if they are long.
std::string excerpt(std::string_view words);

/// The one table from Fault to HTTP status.
ApiError api_error(const Error& error);

/// {"error": {"message", "type", "param", "code"}}, as one line.
std::string openai_error_body(const ApiError& error);
HttpResponse openai_error(const ApiError& error);

}  // namespace kapitsa

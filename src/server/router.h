// Which dialect answers which path: one table.
#pragma once

#include <functional>
#include <optional>

#include "server/api_error.h"
#include "server/http.h"

namespace kapitsa {

class ModelService;

/// Whether there is such a path, with such a method: 404, 405, or nothing. Asked before the body is read.
std::optional<ApiError> check_route(const HttpRequest& request);
/// Answers a request that check_route has passed.
Handled handle_request(ModelService& model, const HttpRequest& request, const std::function<void()>& wake);

}  // namespace kapitsa

#include "server/router.h"

#include <nlohmann/json.hpp>
#include <span>

#include "base/json.h"
#include "server/model_service.h"
#include "server/openai.h"

namespace kapitsa {
namespace {

using Handler = Handled (*)(ModelService&, const HttpRequest&, const Wake&);

constexpr std::string_view models_path = "/v1/models/";

Handled welcome(ModelService& model, const HttpRequest&, const Wake&) {
    return HttpResponse{200, dump_json(Json{{"server", "kapitsa"}, {"model", model.name()}})};
}

Handled health(ModelService&, const HttpRequest&, const Wake&) {
    return HttpResponse{200, R"({"status":"ok"})"};
}

Handled list_models(ModelService& model, const HttpRequest&, const Wake&) { return openai_models(model); }

/// Undoes %2F and its like; what is not two hexadecimal digits stays as it is.
std::string decoded(std::string_view text) {
    const auto digit = [](char letter) {
        if (letter >= '0' && letter <= '9') return letter - '0';
        const char small = char(letter | 0x20);
        return small >= 'a' && small <= 'f' ? small - 'a' + 10 : -1;
    };
    std::string result;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '%' && i + 2 < text.size() && digit(text[i + 1]) >= 0 && digit(text[i + 2]) >= 0) {
            result += char(digit(text[i + 1]) * 16 + digit(text[i + 2]));
            i += 2;
        } else {
            result += text[i];
        }
    }
    return result;
}

Handled one_model(ModelService& model, const HttpRequest& request, const Wake&) {
    return openai_model(model, decoded(request.path.substr(models_path.size())));
}

struct Route {
    std::string_view method,
        path;  // one that ends in / stands for all below it and not for itself; "/" is just "/"
    Handler handler;
};

constexpr Route routes[] = {
    {"GET", "/", welcome},
    {"GET", "/health", health},
    {"GET", "/v1/models", list_models},
    {"GET", models_path, one_model},
    {"POST", "/v1/chat/completions", openai_chat},
    {"POST", "/v1/completions", openai_completions},
};

const Route* find_route(std::string_view path) {
    for (const Route& route : routes) {
        const bool parent = route.path.size() > 1 && route.path.ends_with('/');
        if (parent ? path.size() > route.path.size() && path.starts_with(route.path) : path == route.path)
            return &route;
    }
    return nullptr;
}

}  // namespace

std::optional<ApiError> check_route(const HttpRequest& request) {
    if (request.method == "OPTIONS") return std::nullopt;
    const Route* route = find_route(request.path);
    if (!route)
        return ApiError{404,
                        "there is nothing at " + excerpt(request.path) + "; there are " +
                            "/v1/models, /v1/chat/completions and /v1/completions",
                        {},
                        "unknown_path"};
    if (request.method == route->method || (request.method == "HEAD" && route->method == "GET"))
        return std::nullopt;
    ApiError error{
        405, "this path takes " + std::string(route->method) + " requests", {}, "method_not_allowed"};
    error.allow = route->method == "GET" ? "GET, HEAD, OPTIONS" : "POST, OPTIONS";
    return error;
}

Handled handle_request(ModelService& model, const HttpRequest& request, const std::function<void()>& wake) {
    const Route* route = find_route(request.path);
    if (request.method == "OPTIONS") {
        HttpResponse response{204, "", ""};
        response.headers.emplace_back(
            "Allow", route && route->method == "POST" ? "POST, OPTIONS" : "GET, HEAD, OPTIONS");
        return response;
    }
    return route->handler(model, request, wake);
}

}  // namespace kapitsa

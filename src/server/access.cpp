#include "server/access.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cctype>

namespace kapitsa {
namespace {

bool is_port(std::string_view text) {
    return text.size() <= 5 &&
           std::ranges::all_of(text, [](char digit) { return digit >= '0' && digit <= '9'; });
}

/// What names and addresses consist of. Whoever writes more (a user before '@', say) is not understood.
bool is_name(std::string_view text) {
    return !text.empty() && std::ranges::all_of(text, [](char letter) {
        return std::isalnum(static_cast<unsigned char>(letter)) || std::string_view("-._:%").contains(letter);
    });
}

/// The name of "name:port", "name", "[address]:port" or "[address]", without brackets and in small letters;
/// nothing where it is none of them.
std::optional<std::string> host_name(std::string_view host) {
    std::string_view name = host, rest;
    if (host.starts_with('[')) {
        const auto close = host.find(']');
        if (close == host.npos) return std::nullopt;
        name = host.substr(1, close - 1);
        rest = host.substr(close + 1);
    } else if (const auto colon = host.find(':'); colon != host.npos) {
        name = host.substr(0, colon);
        rest = host.substr(colon);
    }
    if (!is_name(name) || (!rest.empty() && (rest[0] != ':' || !is_port(rest.substr(1)))))
        return std::nullopt;
    if (name.ends_with('.')) name.remove_suffix(1);
    return lowered(name);
}

bool is_address(const std::string& name) {
    unsigned char address[16];
    return inet_pton(AF_INET, name.c_str(), address) == 1 || inet_pton(AF_INET6, name.c_str(), address) == 1;
}

bool is_loopback_name(const std::string& name) {
    if (name == "localhost" || name.ends_with(".localhost")) return true;
    in_addr four{};
    if (inet_pton(AF_INET, name.c_str(), &four) == 1) return (ntohl(four.s_addr) >> 24) == 127;
    in6_addr six{};
    return inet_pton(AF_INET6, name.c_str(), &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

/// Takes as long for a wrong key as for the right one; the length is no secret.
bool same_key(std::string_view given, std::string_view key) {
    volatile unsigned char difference = given.size() == key.size() ? 0 : 1;
    for (std::size_t i = 0; i < given.size(); ++i)
        difference = difference | static_cast<unsigned char>(given[i] ^ key[i % key.size()]);
    return difference == 0;
}

bool has_key(const AccessRules& rules, const HttpRequest& request) {
    const std::string_view bearer = request.header("Authorization");
    if (bearer.size() > 7 && same_but_case(bearer.substr(0, 7), "bearer ") &&
        same_key(bearer.substr(7), rules.api_key))
        return true;
    return same_key(request.header("x-api-key"), rules.api_key);
}

bool is_host_allowed(const AccessRules& rules, std::string_view host) {
    const auto name = host_name(host);
    if (!name) return false;
    // An address in the Host header is no work of a rebinding name: those come by their name.
    if (is_loopback_name(*name) || (rules.any_address && is_address(*name))) return true;
    const auto names_it = [&](const std::string& allowed) { return host_name(allowed) == name; };
    const std::string bound = is_address(rules.bound_host) && rules.bound_host.contains(':')
                                  ? "[" + rules.bound_host + "]"
                                  : rules.bound_host;
    return names_it(bound) || std::ranges::any_of(rules.hosts, names_it);
}

}  // namespace

bool is_loopback_host(std::string_view host) {
    const auto name = host_name(host);
    return name && is_loopback_name(*name);
}

bool is_origin_allowed(const AccessRules& rules, std::string_view origin) {
    if (std::ranges::find(rules.origins, origin) != rules.origins.end()) return true;
    for (const std::string_view scheme : {"http://", "https://"})
        if (origin.starts_with(scheme)) return is_loopback_host(origin.substr(scheme.size()));
    return false;
}

std::optional<ApiError> check_access(const AccessRules& rules, const HttpRequest& request) {
    // HTTP/1.0 knows no Host. Browsers, which a rebinding name needs, do not speak it.
    const std::size_t hosts = request.count_headers("Host");
    if (hosts > 1 || (hosts == 0 && !request.http_1_0)) return ApiError{400, "a request has one Host header"};
    const bool allowed = (hosts == 0 || is_host_allowed(rules, request.header("Host"))) &&
                         (request.authority.empty() || is_host_allowed(rules, request.authority));
    if (!allowed)
        return ApiError{403,
                        "this server does not answer to the name that the request has in its Host header or "
                        "its target; start it with --allow-host",
                        {},
                        "host_not_allowed"};
    if (request.has_header("Origin") && !is_origin_allowed(rules, request.header("Origin")))
        return ApiError{403,
                        "this server does not answer web pages of that origin; start it with --allow-origin",
                        {},
                        "origin_not_allowed"};
    if (rules.api_key.empty() || request.method == "OPTIONS" || request.path == "/health")
        return std::nullopt;
    if (has_key(rules, request)) return std::nullopt;
    return ApiError{401,
                    "the API key is missing or wrong; send it as \"Authorization: Bearer\" or \"x-api-key\"",
                    {},
                    "invalid_api_key"};
}

std::vector<std::pair<std::string, std::string>> cors_headers(const AccessRules& rules,
                                                              const HttpRequest& request) {
    const std::string_view origin = request.header("Origin");
    if (origin.empty() || !is_origin_allowed(rules, origin)) return {};
    std::vector<std::pair<std::string, std::string>> headers{
        {"Access-Control-Allow-Origin", std::string(origin)},
        {"Access-Control-Expose-Headers", "x-request-id"},
        {"Vary", "Origin"},
    };
    if (request.method != "OPTIONS") return headers;
    headers.emplace_back("Access-Control-Allow-Methods", "GET, HEAD, POST, OPTIONS");
    headers.emplace_back("Access-Control-Max-Age", "600");
    const std::string_view wanted = request.header("Access-Control-Request-Headers");
    const auto harmless = [](char letter) {
        return std::isalnum(static_cast<unsigned char>(letter)) || letter == '-' || letter == '_' ||
               letter == ',' || letter == ' ';
    };
    if (!wanted.empty() && std::ranges::all_of(wanted, harmless))
        headers.emplace_back("Access-Control-Allow-Headers", std::string(wanted));
    return headers;
}

}  // namespace kapitsa

// Who is answered. A page from elsewhere that a browser was led to must not reach a local server: not by its
// origin, and not by a name that was made to point here (DNS rebinding). Keys are compared in constant time
// and never written anywhere.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/api_error.h"
#include "server/http.h"

namespace kapitsa {

struct AccessRules {
    std::string bound_host = {};  // as the user wrote it; also allowed as a Host
    bool any_address = false;     // bound to all of the machine's addresses: a Host may be any of them
    std::string api_key = {};     // empty: none is asked
    std::vector<std::string> origins = {}, hosts = {};  // more that are allowed, as written
};

/// "localhost", "127.0.0.1" to "127.255.255.255", "[::1]", each with a port or without.
bool is_loopback_host(std::string_view host);
bool is_origin_allowed(const AccessRules& rules, std::string_view origin);

/// What is wrong with the head of the request, if anything: its Host and the host of its target, its Origin,
/// its key.
std::optional<ApiError> check_access(const AccessRules& rules, const HttpRequest& request);

/// What a browser wants to read on the response to this request; empty when no page asked.
std::vector<std::pair<std::string, std::string>> cors_headers(const AccessRules& rules,
                                                              const HttpRequest& request);

}  // namespace kapitsa

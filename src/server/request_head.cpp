#include "server/request_head.h"

#include <algorithm>

namespace kapitsa {
namespace {

std::string_view trimmed(std::string_view text) {
    while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
    while (text.ends_with(' ') || text.ends_with('\t')) text.remove_suffix(1);
    return text;
}

}  // namespace

Parsed<Done> read_target(std::string_view target, HttpRequest& request) {
    for (const std::string_view scheme : {"http://", "https://"}) {
        if (!same_but_case(target.substr(0, scheme.size()), scheme)) continue;
        target.remove_prefix(scheme.size());
        request.authority = target.substr(0, target.find_first_of("/?#"));
        if (request.authority.empty())
            return std::unexpected(ApiError{400, "the request's target names no host"});
        target.remove_prefix(request.authority.size());
        if (!target.starts_with('/')) target = "/";  // no path, perhaps with a query
        break;
    }
    if (!target.starts_with('/') && target != "*")
        return std::unexpected(ApiError{400, "the request's target must be a path, such as /v1/models"});
    request.path = target.substr(0, target.find_first_of("?#"));
    return Done{};
}

Parsed<bool> waits_for_continue(const HttpRequest& request) {
    if (request.http_1_0) return false;  // which does not know it; RFC 9110 has it ignored there
    bool waits = false;
    for (const auto& [name, value] : request.headers) {
        if (!same_but_case(name, "Expect")) continue;
        for (std::string_view rest = value; !rest.empty();) {
            const std::string_view member = rest.substr(0, rest.find(','));
            rest.remove_prefix(std::min(member.size() + 1, rest.size()));
            if (same_but_case(trimmed(member), "100-continue"))
                waits = true;
            else if (!trimmed(member).empty())
                return std::unexpected(
                    ApiError{417, "the only expectation this server meets is \"100-continue\""});
        }
    }
    return waits;
}

}  // namespace kapitsa

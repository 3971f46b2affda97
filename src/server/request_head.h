// What the first line and the headers of a request say before its path is looked at. All of it is hostile.
#pragma once

#include <string_view>

#include "server/api_error.h"
#include "server/http.h"

namespace kapitsa {

/// Sets the path and the authority from a target in origin form ("/v1/models?x"), absolute form
/// ("http://host/v1/models") or asterisk form ("*"); 400 for anything else, the authority form of CONNECT
/// among it. Source: RFC 9112, section 3.2.
Parsed<Done> read_target(std::string_view target, HttpRequest& request);

/// Whether the client waits for "100 Continue" before it sends its body; 417 where it expects anything else.
/// Source: RFC 9110, section 10.1.1.
Parsed<bool> waits_for_continue(const HttpRequest& request);

}  // namespace kapitsa

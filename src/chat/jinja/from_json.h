// Values from JSON of the conversation: all of it plain.
#pragma once

#include <string_view>

#include "base/json.h"
#include "chat/jinja/value.h"

namespace kapitsa::jinja {

Result<Value> from_json(Budget& budget, const Json& json);

/// Parses as Python's json.loads does: integers of any length stay integers, the last of two equal keys
/// counts.
Result<Value> parse_json_value(Budget& budget, std::string_view text);

}  // namespace kapitsa::jinja

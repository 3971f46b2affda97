// JSON from outside: parsed with limits, kept in the order it came (a tool's schema is shown to the model as
// the client wrote it). nlohmann-json is included only by the .cpp files that look inside a document.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace kapitsa {

using Json = nlohmann::ordered_json;

/// What a document may be. An object keeps its members in a list, so their number is bounded as well:
/// finding a double key costs the square of it.
struct JsonLimits {
    std::size_t bytes = 64u << 20;
    std::size_t depth = 128;
    std::size_t members = 4096;  // of one object
};

/// Parses one document. Refuses, with the byte and the reason: text that is not JSON, double keys, what
/// breaks a limit, bytes that are not UTF-8. An escaped half of a surrogate pair is read as U+FFFD. Numbers
/// are int64, uint64 or double.
Result<Json> parse_json(std::string_view text, const JsonLimits& limits = {});

/// One line, keys in their order, non-ASCII kept. Invalid UTF-8 becomes U+FFFD. The separators are those
/// of nlohmann ("," and ":"); the template's `tojson` has its own.
std::string dump_json(const Json& json);

}  // namespace kapitsa

// Files that stand in a request itself: "data:image/png;base64,iVBO...". Source: RFC 2397 and RFC 4648.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace kapitsa {

bool is_data_url(std::string_view url);

/// The bytes of a base64 data URL, whatever type it says they have; what they are, they say themselves.
/// Fault::invalid_input, in words that go behind a field's name.
Result<std::string> read_data_url(std::string_view url, std::size_t bytes_most);

}  // namespace kapitsa

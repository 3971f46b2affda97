// The escapes of a Python string literal.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace kapitsa::jinja {

/// What the text between the quotes means. Unknown escapes stay as they are, as in Python.
Result<std::string> unescape(std::string_view literal);

}  // namespace kapitsa::jinja

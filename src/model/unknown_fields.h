// Fields of a configuration that a family does not know are not passed over where they may change what the
// model computes.
#pragma once

#include <span>
#include <string_view>

#include "formats/config_reader.h"

namespace kapitsa {

/// Refuses a field that is set, is not among `known`, and whose name contains one of the words of `telling`.
Status refuse_unknown_fields(const ConfigReader& text, std::span<const std::string_view> known,
                             std::span<const std::string_view> telling);

}  // namespace kapitsa

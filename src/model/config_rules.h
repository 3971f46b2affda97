// What families demand of a config.json beyond its numbers: settings that are known with one value alone, and
// fields that nobody here knows.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/config_reader.h"

namespace kapitsa {

/// Fault::unsupported where the field is there and says something else.
Status expect_text(const ConfigReader& config, std::string_view key, std::string_view only);
Status expect_flag(const ConfigReader& config, std::string_view key, bool only);
Status expect_number(const ConfigReader& config, std::string_view key, double only);

/// Angles without any rescaling. @param rope where the rotation is described
Status expect_default_rope(const ConfigReader& rope);

/// Which layers attend where the others are recurrent ("linear_attention"): by `layer_types`, or every so
/// many
/// (`full_attention_interval`). @param attention what `layer_types` calls those that do
Result<std::vector<bool>> attending_layers(const ConfigReader& config, std::uint32_t layers,
                                           std::span<const std::string_view> attention);

/// A field that is not among `known`, whose name speaks of arithmetic and which is set, is not passed over.
/// @param words parts of names that speak of it in this family, beside those that do in all
Status refuse_unknown_arithmetic(const ConfigReader& config, std::span<const std::string_view> known,
                                 std::span<const std::string_view> words = {});

}  // namespace kapitsa

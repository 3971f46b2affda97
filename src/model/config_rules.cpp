#include "model/config_rules.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace kapitsa {

Status expect_text(const ConfigReader& config, std::string_view key, std::string_view only) {
    const std::string value = TRY(config.text_or(key, only));
    if (value == only) return Done{};
    return fail(Fault::unsupported, config.field(key) + " is \"" + value +
                                        "\"; this family is known with \"" + std::string(only) + "\" alone");
}

Status expect_flag(const ConfigReader& config, std::string_view key, bool only) {
    if (TRY(config.flag_or(key, only)) == only) return Done{};
    return fail(Fault::unsupported,
                config.field(key) + " must be " + (only ? "true" : "false") + " in this family");
}

Status expect_number(const ConfigReader& config, std::string_view key, double only) {
    if (TRY(config.real_or(key, only)) == only) return Done{};
    const Json number = only;
    return fail(Fault::unsupported, config.field(key) + " must be " + dump_json(number) + " in this family");
}

Status expect_default_rope(const ConfigReader& rope) {
    TRY(expect_text(rope, "rope_type", "default"));
    return expect_text(rope, "type", "default");
}

Result<std::vector<bool>> attending_layers(const ConfigReader& config, std::uint32_t layers,
                                           std::span<const std::string_view> attention) {
    std::vector<bool> attends(layers);
    if (!config.has("layer_types")) {
        const std::uint32_t interval = TRY(config.number_or("full_attention_interval", 4));
        for (std::uint32_t i = 0; i < layers; ++i) attends[i] = (i + 1) % interval == 0;
        return attends;
    }
    const auto types = TRY(config.texts("layer_types"));
    if (types.size() != layers)
        return fail(Fault::corrupt_file, config.field("layer_types") + " names " +
                                             std::to_string(types.size()) +
                                             " layers; num_hidden_layers says " + std::to_string(layers));
    for (std::uint32_t i = 0; i < layers; ++i) {
        attends[i] = std::ranges::find(attention, types[i]) != attention.end();
        if (attends[i] || types[i] == "linear_attention") continue;
        std::string names;
        for (const std::string_view name : attention) names.append(name).append(", ");
        return fail(Fault::unsupported, config.field("layer_types") + "[" + std::to_string(i) + "] is \"" +
                                            types[i] + "\"; it may be " + names + "or linear_attention");
    }
    return attends;
}

Status refuse_unknown_arithmetic(const ConfigReader& config, std::span<const std::string_view> known,
                                 std::span<const std::string_view> words) {
    constexpr std::string_view telling[] = {"scale", "scaling",  "multiplier", "softcap", "soft_cap", "bias",
                                            "norm",  "_act",     "rope",       "window",  "latent",   "clip",
                                            "gate",  "residual", "sink",       "score",   "alibi"};
    for (const auto& [key, value] : config.json().items()) {
        const bool set = !(value.is_null() || value == false || value == 1 || value.is_object());
        if (!set || std::ranges::find(known, key) != known.end()) continue;
        const auto speaks = [&key](std::string_view word) { return key.find(word) != std::string::npos; };
        if (std::ranges::any_of(telling, speaks) || std::ranges::any_of(words, speaks))
            return fail(Fault::unsupported, config.field(key) +
                                                " is not known in this family and may change what the "
                                                "model computes; remove it if it does not");
    }
    return Done{};
}

}  // namespace kapitsa

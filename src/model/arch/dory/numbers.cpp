#include "model/arch/dory/numbers.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include "model/config_rules.h"

namespace kapitsa::looped {
namespace {

constexpr WholeRange widths{1, 1u << 20}, counts{1, 4096}, head_widths{1, 1024};
constexpr std::uint32_t layers_most = 1024, loops_most = 64;

/// Fields that are read here, or say nothing of the arithmetic though their names sound like it.
constexpr std::string_view known[] = {
    "rope_theta",        "rope_theta_2",    "rope_profile_layers",
    "no_rope_layers",    "swa_window_size", "attention_output_gate",
    "mlp_hidden_act",    "hidden_act",      "attention_output_gate_logit_scale_init",
    "attention_dropout",
};

/// Settings that would change the arithmetic, and are known with one value alone.
Status refuse_variants(const ConfigReader& config) {
    if (TRY(config.number("dory_format_version")) != 1)
        return fail(Fault::unsupported, config.field("dory_format_version") + " must be 1");
    for (const char* key : {"ngpt", "fngpt", "attention_output_gate"}) TRY(expect_flag(config, key, true));
    for (const char* key : {"ngpt_enable_final_norm", "mlp_bias", "attention_bias", "tie_word_embeddings"})
        TRY(expect_flag(config, key, false));
    for (const char* key : {"mlp_hidden_act", "hidden_act"}) TRY(expect_text(config, key, "silu"));
    TRY(expect_text(config, "initial_state", "input_copy"));
    TRY(expect_text(config, "input_transform", "residual"));
    TRY(expect_text(config, "output_transform", "replace"));
    for (const char* key : {"partial_rotary_factor", "partial_rotary_factor_2"})
        TRY(expect_number(config, key, 1));
    for (const char* key : {"mixer_type", "rope_scaling", "rope_parameters"})
        if (config.has(key))
            return fail(Fault::unsupported, config.field(key) + " must be null in this family");
    return refuse_unknown_arithmetic(config, known);
}

/// Windowed layers have the heads of the others.
Status expect_same(const ConfigReader& config, std::string_view key, std::uint32_t value,
                   std::string_view as) {
    if (TRY(config.number_or(key, value)) == value) return Done{};
    return fail(Fault::unsupported,
                config.field(key) + " must be " + std::to_string(value) + ", as " + std::string(as));
}

Status read_heads(const ConfigReader& config, Numbers& n) {
    n.heads = TRY(config.number("num_attention_heads", counts));
    n.kv_heads = TRY(config.number("num_key_value_heads", counts));
    n.head_width = TRY(config.number("attention_head_dim", head_widths));
    TRY(expect_same(config, "swa_num_attention_heads", n.heads, "num_attention_heads"));
    TRY(expect_same(config, "swa_num_key_value_heads", n.kv_heads, "num_key_value_heads"));
    TRY(expect_same(config, "swa_head_dim", n.head_width, "attention_head_dim"));
    if (n.heads % n.kv_heads != 0 || n.heads / n.kv_heads > 64)
        return fail(Fault::unsupported,
                    config.field("num_attention_heads") +
                        " must be a multiple of num_key_value_heads, and at most 64 to each");
    if (n.head_width % 2 != 0)
        return fail(Fault::unsupported,
                    config.field("attention_head_dim") + " is odd; its halves rotate together");
    return Done{};
}

/// How often the recurrent block runs is the deployment's choice, which stands in the file.
Status read_blocks(const ConfigReader& config, Numbers& n) {
    n.blocks.input = TRY(config.number("n_input_layers", {0, layers_most}));
    n.blocks.recurrent = TRY(config.number("n_recurrent_layers", {1, layers_most}));
    n.blocks.output = TRY(config.number("n_output_layers", {0, layers_most}));
    n.blocks.loops = TRY(config.number("n_recurrent_loops", {1, loops_most}));
    const std::uint32_t layers = TRY(config.number("num_hidden_layers", {1, layers_most}));
    if (n.blocks.layers() != layers)
        return fail(Fault::invalid_input,
                    config.field("num_hidden_layers") + " is " + std::to_string(layers) +
                        "; n_input_layers, n_recurrent_layers and n_output_layers add up to " +
                        std::to_string(n.blocks.layers()));
    const std::string mode = TRY(config.text_or("recurrent_kv_cache_mode", "per_loop"));
    if (mode == "per_loop" || (mode == "last_loop" && n.blocks.loops == 1)) return Done{};
    if (mode == "last_loop")
        return fail(Fault::unsupported,
                    config.field("recurrent_kv_cache_mode") +
                        " is \"last_loop\", with which an answer depends on how its prompt was cut into "
                        "steps; set it to \"per_loop\", or n_recurrent_loops to 1");
    return fail(Fault::unsupported,
                config.field("recurrent_kv_cache_mode") + " is \"" + mode + "\"; it may be \"per_loop\"");
}

Result<std::vector<std::uint32_t>> one_a_layer(const ConfigReader& config, std::string_view key,
                                               WholeRange range, std::uint32_t layers) {
    auto all = TRY(config.numbers(key, range));
    if (all.size() == layers) return all;
    return fail(Fault::invalid_input, config.field(key) + " has " + std::to_string(all.size()) +
                                          " entries; there are " + std::to_string(layers) + " layers");
}

Status read_layers(const ConfigReader& config, Numbers& n) {
    const std::uint32_t layers = n.blocks.layers();
    const std::string pattern = TRY(config.text("hybrid_layer_pattern"));
    if (pattern.size() != layers)
        return fail(Fault::invalid_input, config.field("hybrid_layer_pattern") + " names " +
                                              std::to_string(pattern.size()) +
                                              " layers; num_hidden_layers says " + std::to_string(layers));
    const auto profiles = TRY(one_a_layer(config, "rope_profile_layers", {1, 2}, layers));
    // Other families give this field the opposite sense. Here 0 says that a layer rotates, and all do.
    if (config.has("no_rope_layers") &&
        std::ranges::count(TRY(one_a_layer(config, "no_rope_layers", {0, 1}, layers)), 0u) != layers)
        return fail(Fault::unsupported, config.field("no_rope_layers") + " must be 0 for all layers");
    for (std::uint32_t i = 0; i < layers; ++i) {
        if (pattern[i] != 'S' && pattern[i] != '*' && pattern[i] != '-')
            return fail(Fault::unsupported,
                        config.field("hybrid_layer_pattern") + " names a layer \"" + pattern[i] +
                            "\"; layers are S (attention with a window), * (attention) and - (mlp)");
        n.layers.push_back(
            {.attends = pattern[i] != '-', .windowed = pattern[i] == 'S', .profile = profiles[i] - 1});
    }
    return Done{};
}

Status read_rotation(const ConfigReader& config, Numbers& n) {
    constexpr RealRange thetas{1.0, 1e12};
    const bool both =
        std::ranges::any_of(n.layers, [](const LayerNumbers& layer) { return layer.profile == 1; });
    n.rope_thetas[0] = TRY(config.real("rope_theta", thetas));
    n.rope_thetas[1] = both ? TRY(config.real("rope_theta_2", thetas)) : n.rope_thetas[0];
    return Done{};
}

}  // namespace

Result<Numbers> read_numbers(const Json& json) {
    const ConfigReader config(json, "config.json");
    TRY(refuse_variants(config));
    Numbers n;
    n.vocabulary = TRY(config.number("vocab_size", {1, 1u << 24}));
    n.width = TRY(config.number("hidden_size", widths));
    n.context = TRY(config.number("max_position_embeddings", token_counts));
    n.inner = TRY(config.number("intermediate_size", widths));
    n.init_std = TRY(config.real("init_method_std", {1e-6, 1e3}));
    n.alpha_init = TRY(config.real("ngpt_alpha_init", {0, 1e3}));
    n.gate_init =
        TRY(config.real_or("attention_output_gate_logit_scale_init", std::sqrt(double(n.width)), {0, 1e6}));
    TRY(read_heads(config, n));
    TRY(read_blocks(config, n));
    TRY(read_layers(config, n));
    TRY(read_rotation(config, n));
    if (std::ranges::any_of(n.layers, &LayerNumbers::windowed))
        n.window = TRY(config.number("swa_window_size", token_counts));
    return n;
}

}  // namespace kapitsa::looped

#include "model/arch/nemotron_h/numbers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "model/config_rules.h"

namespace kapitsa::nemotron {
namespace {

constexpr WholeRange widths{1, 1u << 20}, counts{1, 4096}, head_widths{1, 1024};

/// The first of these fields that is there: releases have renamed some. The first name where none is.
std::string_view present(const ConfigReader& text, std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names)
        if (text.has(name)) return name;
    return *names.begin();
}

/// Fields that say nothing of the arithmetic, though their names sound like it.
constexpr std::string_view harmless[] = {
    "rescale_prenorm_residual", "residual_in_fp32",  "rope_theta",      "partial_rotary_factor",
    "rope_parameters",          "attention_dropout", "norm_eps",        "rms_norm_eps",
    "layer_norm_epsilon",       "norm_topk_prob",    "use_bias",        "mlp_bias",
    "attention_bias",           "mamba_proj_bias",   "use_conv_bias",   "mamba_conv_bias",
    "mlp_hidden_act",           "mamba_hidden_act",  "moe_latent_size", "routed_scaling_factor",
    "use_mamba_kernels",        "sliding_window",    "hidden_act",
};

Status refuse_variants(const ConfigReader& text) {
    TRY(expect_text(text, "mlp_hidden_act", "relu2"));
    TRY(expect_text(text, "mamba_hidden_act", "silu"));
    for (const char* key : {"use_bias", "mlp_bias", "attention_bias", "mamba_proj_bias"})
        if (TRY(text.flag_or(key, false)))
            return fail(Fault::unsupported, text.field(key) + " must be false in this family");
    if (text.has("sliding_window"))
        return fail(Fault::unsupported, text.field("sliding_window") + " must be null in this family");
    return refuse_unknown_arithmetic(text, harmless);
}

/// A bound of time_step_limit. Infinity stands in files as the bare word (read as null), as a string, as
/// {"__float__": "Infinity"}, or as a number beyond all floats.
std::optional<float> bound(const Json& value) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    if (value.is_null() || value == "Infinity" || value == Json{{"__float__", "Infinity"}}) return infinity;
    if (!value.is_number()) return {};
    const double number = value.get<double>();
    if (!(number >= 0)) return {};
    return number > double(std::numeric_limits<float>::max()) ? infinity : float(number);
}

/// The bounds of a step of time are time_step_limit alone; time_step_min, _max and _floor are for training.
Status read_steps(const ConfigReader& text, Numbers& n) {
    n.least_step = 0;
    n.most_step = std::numeric_limits<float>::infinity();
    const std::string_view key = present(text, {"time_step_limit", "mamba_dt_limit"});
    if (!text.has(key)) return Done{};
    const Json& limit = text.json()[std::string(key)];
    const auto least = limit.is_array() && limit.size() == 2 ? bound(limit[0]) : std::nullopt;
    const auto most = least ? bound(limit[1]) : std::nullopt;
    if (!most || !std::isfinite(*least) || *least > *most)
        return fail(Fault::invalid_input,
                    text.field(key) + " must be two numbers, the least and the most; or Infinity");
    n.least_step = *least;
    n.most_step = *most;
    return Done{};
}

Result<Kind> kind_of(const std::string& field, std::string_view name) {
    if (name == "M" || name == "mamba" || name == "linear_attention") return Kind::mamba;
    if (name == "*" || name == "attention" || name == "full_attention") return Kind::attention;
    if (name == "-" || name == "mlp") return Kind::mlp;
    if (name == "E" || name == "moe") return Kind::experts;
    return fail(Fault::unsupported, field + " names a layer \"" + std::string(name) +
                                        "\"; layers are M (mamba), * (attention), - (mlp) and E (moe)");
}

/// How the layers of a model, or of its drafting module, are named in the file.
struct PatternFields {
    std::string_view pattern;                       // "M-M*": a character a layer
    std::initializer_list<std::string_view> types;  // a list of names
    std::string_view blocks;                        // a list of objects, which may have numbers of their own
};

Result<std::vector<std::string>> layer_names(const ConfigReader& text, const PatternFields& fields) {
    std::vector<std::string> names;
    if (text.has(fields.pattern)) {
        for (const char c : TRY(text.text(fields.pattern))) names.emplace_back(1, c);
        return names;
    }
    if (const auto types = present(text, fields.types); text.has(types)) return text.texts(types);
    if (!text.has(fields.blocks)) return names;
    const Json& blocks = text.json()[std::string(fields.blocks)];
    for (const Json& block : blocks) {
        if (!block.is_object())
            return fail(Fault::invalid_input, text.field(fields.blocks) + " must be a list of objects");
        names.push_back(TRY(ConfigReader(block, text.field(fields.blocks)).text("block_type")));
    }
    return names;
}

/// The numbers of one layer of experts, from where it has its own, else from the model's.
Result<ExpertNumbers> read_experts(const ConfigReader* own, const ConfigReader& all) {
    const auto number = [&](std::string_view key, WholeRange range) {
        return (own && own->has(key) ? *own : all).number(key, range);
    };
    ExpertNumbers n{.experts = TRY(number("n_routed_experts", counts)),
                    .used = TRY(number("num_experts_per_tok", counts)),
                    .inner = TRY(number("moe_intermediate_size", widths)),
                    .shared_inner = TRY(number("moe_shared_expert_intermediate_size", widths)),
                    .latent = 0};
    if (all.has("moe_latent_size") || (own && own->has("moe_latent_size")))
        n.latent = TRY(number("moe_latent_size", widths));
    if (n.used > n.experts)
        return fail(Fault::invalid_input, all.field("num_experts_per_tok") + " is " + std::to_string(n.used) +
                                              " of " + std::to_string(n.experts) + " experts");
    return n;
}

Result<std::vector<LayerNumbers>> read_layers(const ConfigReader& text, const PatternFields& fields) {
    const auto names = TRY(layer_names(text, fields));
    if (names.size() > 1024)
        return fail(Fault::invalid_input, text.field(fields.pattern) + " names more than 1024 layers");
    const Json* blocks = text.has(fields.blocks) ? &text.json()[std::string(fields.blocks)] : nullptr;
    if (blocks && (!blocks->is_array() || blocks->size() != names.size()))
        return fail(Fault::invalid_input,
                    text.field(fields.blocks) + " must be a list of as many objects as there are layers");
    std::vector<LayerNumbers> layers;
    for (std::size_t i = 0; i < names.size(); ++i) {
        LayerNumbers layer{.kind = TRY(kind_of(text.field(fields.pattern), names[i]))};
        if (layer.kind == Kind::experts && blocks && (*blocks)[i].is_object()) {
            const ConfigReader own((*blocks)[i], text.field(fields.blocks));
            layer.experts = TRY(read_experts(&own, text));
        } else if (layer.kind == Kind::experts) {
            layer.experts = TRY(read_experts(nullptr, text));
        }
        layers.push_back(layer);
    }
    return layers;
}

bool any(const Numbers& n, Kind kind) {
    const auto is = [&](const LayerNumbers& layer) { return layer.kind == kind; };
    return std::ranges::any_of(n.layers, is) || std::ranges::any_of(n.draft_layers, is);
}

/// Experts are chosen from the best groups of neighbours: every row must find as many as it needs there.
Status check_groups(const ConfigReader& text, const Numbers& n) {
    if (n.groups_used > n.expert_groups)
        return fail(Fault::invalid_input, text.field("topk_group") + " is more than n_group");
    for (const auto* layers : {&n.layers, &n.draft_layers})
        for (const LayerNumbers& layer : *layers) {
            if (layer.kind != Kind::experts) continue;
            const ExpertNumbers& e = layer.experts;
            if (e.experts % n.expert_groups != 0)
                return fail(Fault::invalid_input, text.field("n_group") + " does not divide the " +
                                                      std::to_string(e.experts) + " experts of a layer");
            if (e.used > e.experts / n.expert_groups * n.groups_used)
                return fail(Fault::invalid_input, text.field("num_experts_per_tok") + " is " +
                                                      std::to_string(e.used) + ", more than topk_group of " +
                                                      "n_group groups hold");
        }
    return Done{};
}

/// What layers of a kind need, where there are layers of that kind.
Status read_kinds(const ConfigReader& text, Numbers& n) {
    if (any(n, Kind::mlp)) n.inner = TRY(text.number("intermediate_size", widths));
    if (any(n, Kind::mamba)) {
        n.mamba_heads = TRY(text.number("mamba_num_heads", counts));
        n.mamba_head_width = TRY(text.number("mamba_head_dim", head_widths));
        n.groups = TRY(text.number_or(present(text, {"n_groups", "mamba_n_groups"}), 8, counts));
        n.state_width = TRY(text.number_or("ssm_state_size", 128, head_widths));
        n.taps = TRY(text.number_or(present(text, {"conv_kernel", "mamba_d_conv"}), 4, {2, 8}));
        n.conv_biased = TRY(text.flag_or(present(text, {"use_conv_bias", "mamba_conv_bias"}), true));
        if (n.mamba_heads % n.groups != 0)
            return fail(Fault::unsupported, text.field("mamba_num_heads") + " is no multiple of n_groups");
        if (std::uint64_t(n.mamba_heads) * n.mamba_head_width * n.state_width > 1u << 28)
            return fail(Fault::unsupported,
                        text.field("mamba_num_heads") +
                            " times mamba_head_dim times ssm_state_size is a state of more than 1 GiB");
        TRY(read_steps(text, n));
    }
    if (any(n, Kind::experts)) {
        n.expert_groups = TRY(text.number_or("n_group", 1, counts));
        n.groups_used = TRY(text.number_or("topk_group", 1, counts));
        TRY(check_groups(text, n));
        n.normed_weights = TRY(text.flag_or("norm_topk_prob", true));
        n.expert_scale = float(TRY(text.real_or("routed_scaling_factor", 1.0, {0.0, 1e6})));
        if (TRY(text.number_or("n_shared_experts", 1, {0, 4096})) != 1)
            return fail(Fault::unsupported, text.field("n_shared_experts") + " must be 1 in this family");
    }
    return Done{};
}

Status read_attention(const ConfigReader& text, Numbers& n) {
    n.heads = TRY(text.number("num_attention_heads", counts));
    n.kv_heads = TRY(text.number_or("num_key_value_heads", n.heads, counts));
    const std::string_view key = present(text, {"head_dim", "attention_head_dim"});
    n.head_width = TRY(text.number_or(key, std::max(1u, n.width / n.heads), head_widths));
    if (n.heads % n.kv_heads != 0 || n.heads / n.kv_heads > 64)
        return fail(Fault::unsupported,
                    text.field("num_attention_heads") +
                        " must be a multiple of num_key_value_heads, and at most 64 to each");
    return Done{};
}

/// The text model's own object, where the file wraps it: models that see or hear.
Result<ConfigReader> text_of(const ConfigReader& file) {
    if (file.has("llm_config")) return file.child("llm_config");
    return file.child_or_self("text_config");
}

}  // namespace

Result<Numbers> read_numbers(const Json& config) {
    const ConfigReader file(config, "config.json");
    const ConfigReader text = TRY(text_of(file));
    TRY(refuse_variants(text));
    Numbers n;
    n.vocabulary = TRY(text.number("vocab_size", {1, 1u << 24}));
    n.width = TRY(text.number("hidden_size", widths));
    n.context = TRY(text.number_or("max_position_embeddings", 131072, token_counts));
    const std::string_view epsilon = present(text, {"layer_norm_epsilon", "norm_eps", "rms_norm_eps"});
    n.epsilon = float(TRY(text.real_or(epsilon, 1e-5, {0.0, 1.0})));
    n.tied = TRY((text.has("tie_word_embeddings") ? text : file).flag_or("tie_word_embeddings", false));
    n.layers = TRY(read_layers(
        text, {"hybrid_override_pattern", {"layers_block_type", "layer_types"}, "block_configs"}));
    if (n.layers.empty())
        return fail(Fault::invalid_input, text.field("hybrid_override_pattern") +
                                              " is missing, and so is layers_block_type: one of them must "
                                              "say what the layers are");
    if (TRY(text.number_or("num_nextn_predict_layers", 0, {0, 64})) > 0) {
        n.draft_layers = TRY(read_layers(
            text, {"mtp_hybrid_override_pattern", {"mtp_layers_block_type"}, "mtp_block_configs"}));
        if (n.draft_layers.empty())
            n.draft_layers = {{Kind::attention}, {Kind::experts, TRY(read_experts(nullptr, text))}};
    }
    TRY(read_attention(text, n));
    TRY(read_kinds(text, n));
    return n;
}

}  // namespace kapitsa::nemotron

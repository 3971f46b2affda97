// How GGUF files say Flint (flint). Which layers have a window and which rotate stands in two lists of true
// and false; the first layers are dense.
#include <nlohmann/json.hpp>

#include "model/gguf_dialect.h"

namespace kapitsa::gguf {
namespace {

/// What no published file was read for: docs/models.md lists it.
namespace unconfirmed {

constexpr const char* windowed = "attention.sliding_window_pattern";  // true: the layer has a window
constexpr const char* rotates = "rope.pattern";                       // true: the layer rotates
constexpr std::string_view sinks = "attn_sinks.weight", norm_before_feed_forward = "ffn_norm",
                           correction = "exp_probs_b.bias";
constexpr std::uint32_t sigmoid = 2;  // of expert_gating_func

}  // namespace unconfirmed

constexpr WholeRange widths{1, 1u << 20};

constexpr GgufName outside[] = {
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
};

constexpr GgufName of_block[] = {
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {unconfirmed::sinks, "self_attn.softmax_offset"},
    {unconfirmed::norm_before_feed_forward, "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
    {"ffn_gate_inp", "mlp.gate"},
    {unconfirmed::correction, "mlp.gate.e_score_correction_bias"},
    {"ffn_gate_exps", "mlp.switch_mlp.gate_proj"},
    {"ffn_up_exps", "mlp.switch_mlp.up_proj"},
    {"ffn_down_exps", "mlp.switch_mlp.down_proj"},
    {"ffn_gate_up_exps", "mlp.experts.gate_up_proj"},
    {"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
    {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
    {"ffn_down_shexp", "mlp.shared_expert.down_proj"},
};

Status refuse(const GgufTranslation& file, std::string_view name, const std::string& why) {
    return fail(Fault::unsupported, file.settings().field(file.key(name)) + " " + why);
}

Status read_attention(const GgufTranslation& file, std::uint32_t layers, Json& config) {
    const ConfigReader& settings = file.settings();
    const auto width = TRY(settings.number(file.key("attention.key_length"), widths));
    for (const char* same : {"attention.value_length", "rope.dimension_count"})
        if (const auto other = TRY(settings.number_or(file.key(same), width, widths)); other != width)
            TRY(refuse(file, same,
                       "is " + std::to_string(other) + ", and attention.key_length " + std::to_string(width) +
                           "; they must be equal"));
    if (const auto scaling = TRY(settings.text_or(file.key("rope.scaling.type"), "none")); scaling != "none")
        TRY(refuse(file, "rope.scaling.type", "is \"" + scaling + "\"; none is supported"));
    config["head_dim"] = width;
    config["num_attention_heads"] = TRY(settings.number(file.key("attention.head_count"), widths));
    config["num_key_value_heads"] = TRY(settings.number(file.key("attention.head_count_kv"), widths));
    config["rms_norm_eps"] = TRY(settings.real(file.key("attention.layer_norm_rms_epsilon"), {0, 1}));
    config["rope_theta"] = TRY(settings.real(file.key("rope.freq_base")));
    config["sliding_window"] = TRY(settings.number(file.key("attention.sliding_window"), token_counts));
    const auto windowed = TRY(file.flags(unconfirmed::windowed, layers)),
               rotates = TRY(file.flags(unconfirmed::rotates, layers));
    Json types = Json::array(), still = Json::array();
    for (std::uint32_t i = 0; i < layers; ++i) {
        types.push_back(windowed[i] ? "sliding_attention" : "full_attention");
        if (!rotates[i]) still.push_back(i);
    }
    config["layer_types"] = std::move(types);
    config["no_rope_layer_indices"] = std::move(still);
    return Done{};
}

/// The shared experts are one, as wide as all of them.
Status read_experts(const GgufTranslation& file, Json& config) {
    const ConfigReader& settings = file.settings();
    const auto width = TRY(settings.number(file.key("expert_feed_forward_length"), widths));
    const auto shared = TRY(settings.number(file.key("expert_shared_count"), {1, 64}));
    const auto shared_width =
        TRY(settings.number_or(file.key("expert_shared_feed_forward_length"), shared * width, {1, 1u << 26}));
    config["num_experts"] = TRY(settings.number(file.key("expert_count"), widths));
    config["num_experts_per_tok"] = TRY(settings.number(file.key("expert_used_count"), widths));
    config["moe_intermediate_size"] = width;
    config["shared_expert_intermediate_size"] = shared_width;
    config["norm_topk_prob"] = TRY(settings.flag_or(file.key("expert_weights_norm"), true));
    if (TRY(settings.real_or(file.key("expert_weights_scale"), 1.0)) != 1.0)
        TRY(refuse(file, "expert_weights_scale", "must be 1 in this family"));
    if (TRY(settings.number_or(file.key("expert_gating_func"), unconfirmed::sigmoid, {0, 64})) !=
        unconfirmed::sigmoid)
        TRY(refuse(file, "expert_gating_func", "must be 2, a sigmoid, in this family"));
    return Done{};
}

Result<Json> translate(GgufTranslation& file) {
    const ConfigReader& settings = file.settings();
    const std::uint32_t layers = TRY(settings.number(file.key("block_count"), {1, 1024}));
    const std::uint32_t dense = TRY(settings.number(file.key("leading_dense_block_count"), {0, layers}));
    Json config = Json::object();
    config["model_type"] = "flint";
    config["vocab_size"] = TRY(file.vocabulary());
    config["hidden_size"] = TRY(settings.number(file.key("embedding_length"), widths));
    config["num_hidden_layers"] = layers;
    config["max_position_embeddings"] = TRY(settings.number(file.key("context_length"), token_counts));
    config["eos_token_id"] = file.token("eos");
    config["bos_token_id"] = file.token("bos");
    config["intermediate_size"] = TRY(settings.number(file.key("feed_forward_length"), widths));
    Json first = Json::array();
    for (std::uint32_t i = 0; i < dense; ++i) first.push_back(i);
    config["mlp_only_layers"] = std::move(first);
    TRY(read_attention(file, layers, config));
    if (dense < layers) TRY(read_experts(file, config));
    TRY(file.rename(outside, ""));
    for (std::uint32_t i = 0; i < layers; ++i)
        TRY(file.rename_block(i, of_block, "model.layers." + std::to_string(i) + "."));
    return config;
}

constexpr std::string_view architectures[] = {"flint"};

}  // namespace

extern const GgufDialect flint{.architectures = architectures, .translate = translate};

}  // namespace kapitsa::gguf

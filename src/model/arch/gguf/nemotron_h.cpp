// How GGUF files say Nemotron-H, without experts (nemotron_h) and with them (nemotron_h_moe). What kind a
// layer is follows from its numbers: key heads, feed-forward width, and a router. Decays are stored as
// -exp(A_log); the two layers of the module that drafts are one block.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "model/gguf_dialect.h"

namespace kapitsa::gguf {
namespace {

constexpr WholeRange widths{0, 1u << 20};

constexpr GgufName outside[] = {
    {"token_embd", "backbone.embeddings"},
    {"output_norm", "backbone.norm_f"},
    {"output", "lm_head"},
};

constexpr GgufName of_every_kind[] = {
    {"attn_norm", "norm"},
    {"ssm_in", "mixer.in_proj"},
    {"ssm_conv1d.weight", "mixer.conv1d.weight", GgufShape::channels_in_front},
    {"ssm_conv1d.bias", "mixer.conv1d.bias"},
    {"ssm_dt.bias", "mixer.dt_bias", GgufShape::flat},
    {"ssm_a", "mixer.A_log", GgufShape::flat, Stored::as_negated_exponential},
    {"ssm_d", "mixer.D", GgufShape::flat},
    {"ssm_norm", "mixer.norm", GgufShape::flat},
    {"ssm_out", "mixer.out_proj"},
    {"attn_q", "mixer.q_proj"},
    {"attn_k", "mixer.k_proj"},
    {"attn_v", "mixer.v_proj"},
    {"attn_output", "mixer.o_proj"},
    {"ffn_up", "mixer.up_proj"},
    {"ffn_down", "mixer.down_proj"},
};

constexpr GgufName of_experts[] = {
    {"ffn_gate_inp", "mixer.gate"},
    {"exp_probs_b.bias", "mixer.gate.e_score_correction_bias"},
    {"ffn_up_exps", "mixer.switch_mlp.fc1"},
    {"ffn_down_exps", "mixer.switch_mlp.fc2"},
    {"ffn_up_shexp", "mixer.shared_experts.up_proj"},
    {"ffn_down_shexp", "mixer.shared_experts.down_proj"},
    {"ffn_latent_down", "mixer.fc1_latent_proj"},
    {"ffn_latent_up", "mixer.fc2_latent_proj"},
    {"ffn_latent_in", "mixer.fc1_latent_proj"},  // by other hands
    {"ffn_latent_out", "mixer.fc2_latent_proj"},
};

// The block that drafts: first its attention with what goes in, then its experts with what comes out.
constexpr GgufName into_draft[] = {
    {"nextn.enorm", "enorm"},
    {"nextn.hnorm", "hnorm"},
    {"nextn.eh_proj", "eh_proj"},
};
constexpr GgufName out_of_draft[] = {
    {"ffn_norm", "norm"},
    {"post_attention_norm", "norm"},
    {"nextn.shared_head_norm", "final_layernorm"},
};

std::string block(std::uint32_t number) { return "blk." + std::to_string(number) + "."; }

struct Layers {
    std::uint32_t trunk = 0, drafts = 0;
    std::vector<std::string> kinds;  // [trunk]
};

/// The kinds of the layers, and their numbers where they have such of their own.
Result<Layers> read_layers(const GgufTranslation& file, Json& config) {
    const ConfigReader& settings = file.settings();
    const std::uint32_t blocks = TRY(settings.number(file.key("block_count"), {1, 1024}));
    Layers layers;
    layers.drafts =
        TRY(settings.number_or(file.key("nextn_predict_layers"), 0, {0, std::min(1u, blocks - 1)}));
    layers.trunk = blocks - layers.drafts;
    const auto key_heads = TRY(file.by_block("attention.head_count_kv", blocks, widths));
    const auto inner = TRY(file.by_block("feed_forward_length", blocks, widths));
    const auto expert_inner = TRY(file.by_block("expert_feed_forward_length", blocks, widths));
    if (key_heads.empty() || inner.empty())
        return fail(Fault::corrupt_file,
                    settings.field(file.key("attention.head_count_kv")) +
                        " or feed_forward_length is missing: they say what the layers are");
    Json kinds = Json::array();
    std::vector<std::uint32_t> plain_inner;
    for (std::uint32_t i = 0; i < layers.trunk; ++i) {
        const bool has_router = file.has(block(i) + "ffn_gate_inp.weight");
        const char* kind = has_router          ? "moe"
                           : inner[i] != 0     ? "mlp"
                           : key_heads[i] != 0 ? "attention"
                                               : "mamba";
        layers.kinds.emplace_back(kind);
        kinds.push_back({{"block_type", kind}});
        if (has_router && !expert_inner.empty()) kinds.back()["moe_intermediate_size"] = expert_inner[i];
        if (layers.kinds.back() == "mlp") plain_inner.push_back(inner[i]);
    }
    config["block_configs"] = std::move(kinds);
    config["num_key_value_heads"] = TRY(file.the_number("attention.head_count_kv", key_heads));
    if (const auto width = TRY(file.the_number("feed_forward_length", plain_inner)))
        config["intermediate_size"] = width;
    if (const auto width =
            TRY(file.the_number("expert_feed_forward_length", layers.drafts && !expert_inner.empty()
                                                                  ? std::vector{expert_inner.back()}
                                                                  : std::vector<std::uint32_t>())))
        config["moe_intermediate_size"] = width;  // of the drafting module
    config["num_nextn_predict_layers"] = layers.drafts;
    return layers;
}

Status read_mamba(const GgufTranslation& file, const Layers& layers, Json& config) {
    const auto first = std::ranges::find(layers.kinds, "mamba");
    if (first == layers.kinds.end()) return Done{};
    const ConfigReader& settings = file.settings();
    const auto heads = TRY(settings.number(file.key("ssm.time_step_rank"), {1, 1u << 16}));
    const auto inner = TRY(settings.number(file.key("ssm.inner_size"), {1, 1u << 24}));
    if (inner % heads != 0)
        return fail(Fault::corrupt_file, settings.field(file.key("ssm.inner_size")) + " is " +
                                             std::to_string(inner) + ", which the " + std::to_string(heads) +
                                             " heads do not divide");
    config["mamba_num_heads"] = heads;
    config["mamba_head_dim"] = inner / heads;
    config["n_groups"] = TRY(settings.number(file.key("ssm.group_count")));
    config["ssm_state_size"] = TRY(settings.number(file.key("ssm.state_size")));
    config["conv_kernel"] = TRY(settings.number(file.key("ssm.conv_kernel")));
    config["use_conv_bias"] =
        file.has(block(std::uint32_t(first - layers.kinds.begin())) + "ssm_conv1d.bias");
    return Done{};
}

Status read_experts(const GgufTranslation& file, const Layers& layers, Json& config) {
    if (layers.drafts == 0 && std::ranges::find(layers.kinds, "moe") == layers.kinds.end()) return Done{};
    const ConfigReader& settings = file.settings();
    config["n_routed_experts"] = TRY(settings.number(file.key("expert_count")));
    config["num_experts_per_tok"] = TRY(settings.number(file.key("expert_used_count")));
    config["moe_shared_expert_intermediate_size"] =
        TRY(settings.number(file.key("expert_shared_feed_forward_length"), widths));
    config["n_shared_experts"] = TRY(settings.number_or(file.key("expert_shared_count"), 1));
    config["norm_topk_prob"] = TRY(settings.flag_or(file.key("expert_weights_norm"), true));
    config["routed_scaling_factor"] = TRY(settings.real_or(file.key("expert_weights_scale"), 1.0));
    config["n_group"] = TRY(settings.number_or(file.key("expert_group_count"), 1));
    config["topk_group"] = TRY(settings.number_or(file.key("expert_group_used_count"), 1));
    if (const auto latent = TRY(settings.number_or(file.key("moe_latent_size"), 0, widths)))
        config["moe_latent_size"] = latent;
    return Done{};
}

Status rename(GgufTranslation& file, const Layers& layers) {
    TRY(file.rename(outside, ""));
    for (std::uint32_t i = 0; i < layers.trunk; ++i) {
        const std::string prefix = "backbone.layers." + std::to_string(i) + ".";
        TRY(file.rename_block(i, of_every_kind, prefix));
        TRY(file.rename_block(i, of_experts, prefix));
    }
    if (layers.drafts == 0) return Done{};
    TRY(file.rename_block(layers.trunk, of_every_kind, "mtp.layers.0."));
    TRY(file.rename_block(layers.trunk, into_draft, "mtp.layers.0."));
    TRY(file.rename_block(layers.trunk, of_experts, "mtp.layers.1."));
    return file.rename_block(layers.trunk, out_of_draft, "mtp.layers.1.");
}

Result<Json> translate(GgufTranslation& file) {
    const ConfigReader& settings = file.settings();
    Json config = Json::object();
    config["model_type"] = "nemotron_h";
    config["vocab_size"] = TRY(file.vocabulary());
    config["hidden_size"] = TRY(settings.number(file.key("embedding_length"), widths));
    config["max_position_embeddings"] = TRY(settings.number(file.key("context_length"), token_counts));
    const std::string epsilon = file.key("attention.layer_norm_rms_epsilon");
    config["layer_norm_epsilon"] = TRY(
        settings.real(settings.has(epsilon) ? epsilon : file.key("attention.layer_norm_epsilon"), {0, 1}));
    config["tie_word_embeddings"] = !file.has("output.weight");
    config["eos_token_id"] = file.token("eos");
    config["bos_token_id"] = file.token("bos");
    config["num_attention_heads"] = TRY(settings.number(file.key("attention.head_count"), widths));
    config["head_dim"] = TRY(settings.number(file.key("attention.key_length"), widths));
    const Layers layers = TRY(read_layers(file, config));
    TRY(read_mamba(file, layers, config));
    TRY(read_experts(file, layers, config));
    TRY(rename(file, layers));
    return config;
}

constexpr std::string_view architectures[] = {"nemotron_h", "nemotron_h_moe"};

}  // namespace

extern const GgufDialect nemotron_h{.architectures = architectures, .translate = translate};

}  // namespace kapitsa::gguf

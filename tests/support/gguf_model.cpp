#include "support/gguf_model.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "support/gguf_conversion.h"

namespace kapitsa {
namespace {

constexpr Row own_rows_of_qwen3_5[] = {
    {"norm.weight", "output_norm.weight", Change::add_one},
    {"input_layernorm.weight", "attn_norm.weight", Change::add_one},
    {"post_attention_layernorm.weight", "post_attention_norm.weight", Change::add_one},
    {"mtp.fc.weight", "nextn.eh_proj.weight"},
    {"mtp.pre_fc_norm_embedding.weight", "nextn.enorm.weight", Change::add_one},
    {"mtp.pre_fc_norm_hidden.weight", "nextn.hnorm.weight", Change::add_one},
    {"mtp.norm.weight", "nextn.shared_head_norm.weight", Change::add_one},
};
constexpr auto qwen_rows = joined(rows_of_qwen, own_rows_of_qwen3_5);

constexpr Row nemotron_rows[] = {
    {"embeddings.weight", "token_embd.weight"},
    {"norm_f.weight", "output_norm.weight"},
    {"lm_head.weight", "output.weight"},
    {"norm.weight", "attn_norm.weight"},
    {"mixer.in_proj.weight", "ssm_in.weight"},
    {"mixer.conv1d.weight", "ssm_conv1d.weight", Change::taps},
    {"mixer.conv1d.bias", "ssm_conv1d.bias"},
    {"mixer.dt_bias", "ssm_dt.bias"},
    {"mixer.A_log", "ssm_a", Change::decay},
    {"mixer.D", "ssm_d", Change::add_column},
    {"mixer.norm.weight", "ssm_norm.weight", Change::add_column},
    {"mixer.out_proj.weight", "ssm_out.weight"},
    {"mixer.q_proj.weight", "attn_q.weight"},
    {"mixer.k_proj.weight", "attn_k.weight"},
    {"mixer.v_proj.weight", "attn_v.weight"},
    {"mixer.o_proj.weight", "attn_output.weight"},
    {"mixer.up_proj.weight", "ffn_up.weight"},
    {"mixer.down_proj.weight", "ffn_down.weight"},
    {"mixer.gate.weight", "ffn_gate_inp.weight"},
    {"mixer.gate.e_score_correction_bias", "exp_probs_b.bias"},
    {"mixer.experts.up_proj", "ffn_up_exps.weight"},
    {"mixer.experts.down_proj", "ffn_down_exps.weight"},
    {"mixer.shared_experts.up_proj.weight", "ffn_up_shexp.weight"},
    {"mixer.shared_experts.down_proj.weight", "ffn_down_shexp.weight"},
    {"mixer.fc1_latent_proj.weight", "ffn_latent_down.weight"},
    {"mixer.fc2_latent_proj.weight", "ffn_latent_up.weight"},
    {"enorm.weight", "nextn.enorm.weight"},
    {"hnorm.weight", "nextn.hnorm.weight"},
    {"eh_proj.weight", "nextn.eh_proj.weight"},
    {"final_layernorm.weight", "nextn.shared_head_norm.weight"},
};

void expert_settings(GgufWriter& writer, const Json& text, const std::string& name) {
    const auto set = [&](const char* key, std::uint32_t value) { writer.number(name + "." + key, value); };
    set("expert_count", number(text, "num_experts"));
    set("expert_used_count", number(text, "num_experts_per_tok"));
    set("expert_feed_forward_length", number(text, "moe_intermediate_size"));
    set("expert_shared_feed_forward_length", number(text, "shared_expert_intermediate_size"));
}

}  // namespace

void qwen_settings(GgufWriter& writer, const Json& text, const std::string& name) {
    const auto set = [&](const char* key, std::uint32_t value) { writer.number(name + "." + key, value); };
    const Json& rope = text["rope_parameters"];
    const std::uint32_t drafts = text.value("mtp_num_hidden_layers", 0u);
    set("block_count", number(text, "num_hidden_layers") + drafts);
    if (drafts > 0) set("nextn_predict_layers", drafts);
    set("context_length", number(text, "max_position_embeddings"));
    set("embedding_length", number(text, "hidden_size"));
    set("attention.head_count", number(text, "num_attention_heads"));
    set("attention.head_count_kv", number(text, "num_key_value_heads"));
    set("attention.key_length", number(text, "head_dim"));
    set("attention.value_length", number(text, "head_dim"));
    set("rope.dimension_count",
        std::uint32_t(std::lround(number(text, "head_dim") * rope["partial_rotary_factor"].get<double>())));
    set("full_attention_interval", number(text, "full_attention_interval"));
    set("ssm.conv_kernel", number(text, "linear_conv_kernel_dim"));
    set("ssm.state_size", number(text, "linear_key_head_dim"));
    set("ssm.group_count", number(text, "linear_num_key_heads"));
    set("ssm.time_step_rank", number(text, "linear_num_value_heads"));
    set("ssm.inner_size", number(text, "linear_num_value_heads") * number(text, "linear_value_head_dim"));
    writer.real(name + ".attention.layer_norm_rms_epsilon", text["rms_norm_eps"].get<float>());
    writer.real(name + ".rope.freq_base", rope["rope_theta"].get<float>());
    auto sections = rope["mrope_section"].get<std::vector<std::int32_t>>();
    sections.push_back(0);
    writer.numbers(name + ".rope.dimension_sections", sections);
    if (text.contains("num_experts"))
        expert_settings(writer, text, name);
    else
        set("feed_forward_length", number(text, "intermediate_size"));
}

namespace {

void convert_qwen(Converter& converter, const Json& config, Tensors tensors, const std::string&) {
    GgufWriter& writer = converter.writer();
    const Json& text = text_of(config);
    const std::string name = text.contains("num_experts") ? "qwen35moe" : "qwen35";
    writer.text("general.architecture", name);
    qwen_settings(writer, text, name);
    const HeadOrder order(config);
    for (auto& [full, tensor] : tensors) {
        order.tile(full, tensor);
        const std::uint32_t trunk = number(text, "num_hidden_layers");
        const bool drafts = full.starts_with("mtp.");
        auto [block, local] =
            block_of(drafts ? without(full, {"mtp."}) : without(full, {"model.language_model.", "model."}),
                     drafts ? trunk : 0);
        if (drafts && block.empty()) {
            block = "blk." + std::to_string(trunk) + ".";
            local = full;
        }
        if (local != "mlp.experts.gate_up_proj") {
            converter.add(block, local, std::move(tensor));
            continue;
        }
        converter.add(block, "mlp.experts.gate_proj", half_of(tensor, 0));
        converter.add(block, "mlp.experts.up_proj", half_of(tensor, 1));
    }
}

void nemotron_settings(GgufWriter& writer, const Json& text, const std::string& name) {
    const auto set = [&](const char* key, std::uint32_t value) { writer.number(name + "." + key, value); };
    std::string pattern = text["hybrid_override_pattern"];
    const bool drafts = text.value("num_nextn_predict_layers", 0) > 0;
    set("block_count", std::uint32_t(pattern.size() + drafts));
    if (drafts) set("nextn_predict_layers", 1);
    std::vector<std::int32_t> key_heads, inner;
    const bool has_experts = text.contains("n_routed_experts");
    for (const char kind : pattern + (drafts ? "D" : "")) {  // D: the block that drafts attends and chooses
        key_heads.push_back(kind == '*' || kind == 'D' ? std::int32_t(number(text, "num_key_value_heads"))
                                                       : 0);
        inner.push_back(kind == '-'                  ? std::int32_t(number(text, "intermediate_size"))
                        : kind == 'E' || kind == 'D' ? std::int32_t(number(text, "moe_intermediate_size"))
                                                     : 0);
    }
    writer.numbers(name + ".attention.head_count_kv", key_heads)
        .numbers(name + ".feed_forward_length", inner);
    set("context_length", number(text, "max_position_embeddings"));
    set("embedding_length", number(text, "hidden_size"));
    set("attention.head_count", number(text, "num_attention_heads"));
    set("attention.key_length", number(text, "head_dim"));
    writer.real(name + ".attention.layer_norm_rms_epsilon", text["layer_norm_epsilon"].get<float>());
    set("ssm.conv_kernel", number(text, "conv_kernel"));
    set("ssm.inner_size", number(text, "mamba_num_heads") * number(text, "mamba_head_dim"));
    set("ssm.state_size", number(text, "ssm_state_size"));
    set("ssm.time_step_rank", number(text, "mamba_num_heads"));
    set("ssm.group_count", number(text, "n_groups"));
    if (!has_experts) return;
    set("expert_count", number(text, "n_routed_experts"));
    set("expert_used_count", number(text, "num_experts_per_tok"));
    set("expert_feed_forward_length", number(text, "moe_intermediate_size"));
    set("expert_shared_feed_forward_length", number(text, "moe_shared_expert_intermediate_size"));
    set("expert_shared_count", number(text, "n_shared_experts"));
    set("expert_group_count", number(text, "n_group"));
    writer.flag(name + ".expert_weights_norm", text["norm_topk_prob"].get<bool>());
    writer.real(name + ".expert_weights_scale", text["routed_scaling_factor"].get<float>());
    if (text.contains("moe_latent_size")) set("moe_latent_size", number(text, "moe_latent_size"));
}

void convert_nemotron(Converter& converter, const Json& config, Tensors tensors, const std::string&) {
    GgufWriter& writer = converter.writer();
    const std::string name = config.contains("n_routed_experts") ? "nemotron_h_moe" : "nemotron_h";
    writer.text("general.architecture", name);
    nemotron_settings(writer, config, name);
    const auto trunk = std::uint32_t(config["hybrid_override_pattern"].get<std::string>().size());
    for (auto& [full, tensor] : stacked(std::move(tensors))) {
        // Both layers of the module that drafts are one block; only its second norm has another name.
        const std::string block = "blk." + std::to_string(trunk) + ".";
        if (full == "mtp.layers.1.norm.weight")
            writer.floats(block + "ffn_norm.weight", ElementType::f32, tensor.shape, tensor.values);
        else if (full.starts_with("mtp."))
            converter.add(block, without(full, {"mtp.layers.0.", "mtp.layers.1."}), std::move(tensor));
        else {
            const auto [own, local] = block_of(without(full, {"backbone."}), 0);
            converter.add(own, local, std::move(tensor));
        }
    }
}

constexpr Conversion qwen3_5_conversion{qwen_rows, convert_qwen},
    nemotron_h_conversion{nemotron_rows, convert_nemotron};

const Conversion& conversion_of(const std::string& model_type) {
    if (model_type == "nemotron_h") return nemotron_h_conversion;
    if (model_type == "qwen4_exp") return qwen4_exp_conversion;
    if (model_type == "dory") return dory_conversion;
    if (model_type == "flint") return flint_conversion;
    return qwen3_5_conversion;
}

}  // namespace

HeadOrder::HeadOrder(const Json& config)
    : key_heads_(text_of(config)["linear_num_key_heads"]),
      value_heads_(text_of(config)["linear_num_value_heads"]),
      key_width_(text_of(config)["linear_key_head_dim"]),
      value_width_(text_of(config)["linear_value_head_dim"]) {
    CHECK(value_heads_ % key_heads_ == 0);
}

void HeadOrder::tile(const std::string& name, Array<float>& tensor) const {
    const std::size_t at = name.find("linear_attn.");
    if (at == name.npos) return;
    const std::string part = name.substr(at + 12);
    if (part == "norm.weight") return;
    const bool has_keys = part == "in_proj_qkv.weight" || part == "conv1d.weight";
    const bool by_columns = part == "out_proj.weight";
    const bool is_wide = has_keys || by_columns || part == "in_proj_z.weight";
    // The axis that has the heads: `inner` values behind each of its places, and all of it `outer` times.
    const std::size_t first = has_keys ? 2 * key_heads_ * key_width_ : 0, width = is_wide ? value_width_ : 1;
    const std::size_t axis = by_columns ? tensor.shape[1] : tensor.shape[0];
    CHECK(axis == first + value_heads_ * width);
    const std::size_t outer = by_columns ? tensor.shape[0] : 1, inner = tensor.values.size() / outer / axis;
    const std::size_t copies = value_heads_ / key_heads_, head_values = width * inner;
    const std::vector<float> from = tensor.values;
    for (std::size_t o = 0; o < outer; ++o)
        for (std::size_t head = 0; head < value_heads_; ++head) {
            const std::size_t tiled = head % copies * key_heads_ + head / copies;
            const std::size_t start = (o * axis + first) * inner;
            std::copy_n(from.begin() + std::ptrdiff_t(start + head * head_values), head_values,
                        tensor.values.begin() + std::ptrdiff_t(start + tiled * head_values));
        }
}

std::vector<std::pair<std::string, Array<float>>> tensors_of(const std::string& folder) {
    const std::string path = KAPITSA_SOURCE_DIR "/tests/data/goldens/" + folder;
    Tensors tensors;
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
        const std::string file = entry.path().filename().string();
        if (!file.starts_with("model") || !file.ends_with(".safetensors")) continue;
        const Golden golden(entry.path().string());
        for (const std::string& name : golden.names()) tensors.emplace_back(name, golden.floats(name));
    }
    std::ranges::sort(tensors, {}, [](const auto& tensor) { return tensor.first; });
    CHECK(!tensors.empty());
    return tensors;
}

GgufWriter gguf_of(const std::string& folder, ElementType type, std::optional<ElementType> rounded) {
    const Json config = read_golden_json(folder + "/config.json");
    const Conversion& conversion = conversion_of(config["model_type"]);
    GgufWriter writer;
    Converter converter(writer, conversion.rows, type, rounded);
    conversion.convert(converter, config, tensors_of(folder), folder);
    return writer;
}

}  // namespace kapitsa

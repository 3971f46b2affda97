#include "support/gguf_model.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "base/check.h"

namespace kapitsa {
namespace {

const Json& text_of(const Json& config) {
    return config.contains("text_config") ? config["text_config"] : config;
}
std::uint32_t number(const Json& text, const char* key) { return text[key].get<std::uint32_t>(); }

/// What becomes of a tensor's values or shape.
enum class Change {
    none,
    add_one,     // norms that are stored as w of (1 + w)
    decay,       // -exp(w)
    taps,        // [channels, 1, taps] as [channels, taps]
    drop_row,    // [1, n] as [n]
    add_column,  // [n] as [n, 1]
};
struct Row {
    const char *ours, *theirs;  // of a layer: behind its prefix
    Change change = Change::none;
};

constexpr Row qwen_rows[] = {
    {"embed_tokens.weight", "token_embd.weight"},
    {"norm.weight", "output_norm.weight", Change::add_one},
    {"lm_head.weight", "output.weight"},
    {"input_layernorm.weight", "attn_norm.weight", Change::add_one},
    {"post_attention_layernorm.weight", "post_attention_norm.weight", Change::add_one},
    {"linear_attn.in_proj_qkv.weight", "attn_qkv.weight"},
    {"linear_attn.in_proj_z.weight", "attn_gate.weight"},
    {"linear_attn.in_proj_b.weight", "ssm_beta.weight"},
    {"linear_attn.in_proj_a.weight", "ssm_alpha.weight"},
    {"linear_attn.conv1d.weight", "ssm_conv1d.weight", Change::taps},
    {"linear_attn.A_log", "ssm_a", Change::decay},
    {"linear_attn.dt_bias", "ssm_dt.bias"},
    {"linear_attn.norm.weight", "ssm_norm.weight"},
    {"linear_attn.out_proj.weight", "ssm_out.weight"},
    {"self_attn.q_proj.weight", "attn_q.weight"},
    {"self_attn.k_proj.weight", "attn_k.weight"},
    {"self_attn.v_proj.weight", "attn_v.weight"},
    {"self_attn.o_proj.weight", "attn_output.weight"},
    {"self_attn.q_norm.weight", "attn_q_norm.weight", Change::add_one},
    {"self_attn.k_norm.weight", "attn_k_norm.weight", Change::add_one},
    {"mlp.gate_proj.weight", "ffn_gate.weight"},
    {"mlp.up_proj.weight", "ffn_up.weight"},
    {"mlp.down_proj.weight", "ffn_down.weight"},
    {"mlp.gate.weight", "ffn_gate_inp.weight"},
    {"mlp.experts.gate_proj", "ffn_gate_exps.weight"},
    {"mlp.experts.up_proj", "ffn_up_exps.weight"},
    {"mlp.experts.down_proj", "ffn_down_exps.weight"},
    {"mlp.shared_expert.gate_proj.weight", "ffn_gate_shexp.weight"},
    {"mlp.shared_expert.up_proj.weight", "ffn_up_shexp.weight"},
    {"mlp.shared_expert.down_proj.weight", "ffn_down_shexp.weight"},
    {"mlp.shared_expert_gate.weight", "ffn_gate_inp_shexp.weight", Change::drop_row},
    {"mtp.fc.weight", "nextn.eh_proj.weight"},
    {"mtp.pre_fc_norm_embedding.weight", "nextn.enorm.weight", Change::add_one},
    {"mtp.pre_fc_norm_hidden.weight", "nextn.hnorm.weight", Change::add_one},
    {"mtp.norm.weight", "nextn.shared_head_norm.weight", Change::add_one},
};

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

using Tensors = std::vector<std::pair<std::string, Array<float>>>;

/// Behind the first of these prefixes that it has.
std::string without(std::string name, std::initializer_list<std::string_view> prefixes) {
    for (const std::string_view prefix : prefixes)
        if (name.starts_with(prefix)) return name.substr(prefix.size());
    return name;
}

/// Splits "layers.3.rest" in "blk.3." and "rest".
std::pair<std::string, std::string> block_of(const std::string& local, std::uint32_t first) {
    if (!local.starts_with("layers.")) return {"", local};
    const std::size_t dot = local.find('.', 7);
    return {"blk." + std::to_string(std::stoul(local.substr(7)) + first) + ".", local.substr(dot + 1)};
}

void apply(Change change, Array<float>& tensor) {
    for (float& value : tensor.values) {
        if (change == Change::add_one) value += 1.0f;
        if (change == Change::decay) value = -std::exp(value);
    }
    if (change == Change::taps) tensor.shape.erase(tensor.shape.begin() + 1);
    if (change == Change::drop_row) tensor.shape.erase(tensor.shape.begin());
    if (change == Change::add_column) tensor.shape.push_back(1);
}

/// What of each tensor is written, and in which type.
class Converter {
public:
    Converter(GgufWriter& writer, std::span<const Row> rows, ElementType type,
              std::optional<ElementType> rounded)
        : writer_(writer), rows_(rows), type_(type), rounded_(rounded) {}

    void add(const std::string& block, const std::string& local, Array<float> tensor) {
        const auto row = std::ranges::find(rows_, local, &Row::ours);
        if (row == rows_.end()) return;  // a part that converters drop
        apply(row->change, tensor);
        const bool is_matrix = tensor.shape.size() >= 2 && row->change == Change::none;
        const bool fits = is_matrix && tensor.shape.back() % element_form(type_).values == 0;
        if (fits && rounded_) tensor.values = rounded_to(*rounded_, tensor.values);
        writer_.floats(block + row->theirs, fits ? type_ : ElementType::f32, tensor.shape, tensor.values);
    }

private:
    GgufWriter& writer_;
    std::span<const Row> rows_;
    ElementType type_;
    std::optional<ElementType> rounded_;
};

/// One half of the rows of each expert.
Array<float> half_of(const Array<float>& both, std::size_t half) {
    Array<float> part{{}, {both.shape[0], both.shape[1] / 2, both.shape[2]}};
    const std::size_t each = both.shape[1] * both.shape[2];
    for (std::size_t expert = 0; expert < both.shape[0]; ++expert) {
        const auto from = both.values.begin() + std::ptrdiff_t(expert * each + half * each / 2);
        part.values.insert(part.values.end(), from, from + std::ptrdiff_t(each / 2));
    }
    return part;
}

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
    if (!text.contains("num_experts"))
        return void(set("feed_forward_length", number(text, "intermediate_size")));
    set("expert_count", number(text, "num_experts"));
    set("expert_used_count", number(text, "num_experts_per_tok"));
    set("expert_feed_forward_length", number(text, "moe_intermediate_size"));
    set("expert_shared_feed_forward_length", number(text, "shared_expert_intermediate_size"));
}

void convert_qwen(GgufWriter& writer, Converter& converter, const Json& config, Tensors tensors) {
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

/// Experts one by one become one tensor a layer.
Tensors stacked(Tensors tensors) {
    std::map<std::string, std::map<std::size_t, Array<float>>> stacks;
    Tensors all;
    for (auto& [name, tensor] : tensors) {
        const std::size_t at = name.find(".experts.");
        if (at == name.npos) {
            all.emplace_back(name, std::move(tensor));
            continue;
        }
        const std::size_t begin = at + 9, end = name.find('.', begin);
        std::string stack = name.substr(0, begin) + name.substr(end + 1);
        stack.resize(stack.size() - std::string_view(".weight").size());
        stacks[stack][std::stoul(name.substr(begin, end - begin))] = std::move(tensor);
    }
    for (const auto& [name, experts] : stacks) {
        const Array<float>& first = experts.begin()->second;
        Array<float> stack{{}, {experts.size(), first.shape[0], first.shape[1]}};
        for (const auto& [number, expert] : experts)
            stack.values.insert(stack.values.end(), expert.values.begin(), expert.values.end());
        all.emplace_back(name, std::move(stack));
    }
    return all;
}

void convert_nemotron(GgufWriter& writer, Converter& converter, const Json& config, Tensors tensors) {
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

}  // namespace

HeadOrder::HeadOrder(const Json& config)
    : key_heads_(text_of(config)["linear_num_key_heads"]),
      value_heads_(text_of(config)["linear_num_value_heads"]),
      key_width_(text_of(config)["linear_key_head_dim"]),
      value_width_(text_of(config)["linear_value_head_dim"]) {
    CHECK(key_heads_ > 1 && value_heads_ > key_heads_);  // else the order would not show
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
    const bool is_nemotron = config["model_type"] == "nemotron_h";
    GgufWriter writer;
    Converter converter(writer, is_nemotron ? std::span<const Row>(nemotron_rows) : qwen_rows, type, rounded);
    (is_nemotron ? convert_nemotron : convert_qwen)(writer, converter, config, tensors_of(folder));
    return writer;
}

}  // namespace kapitsa

#include "support/gguf_model.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/check.h"

namespace kapitsa {
namespace {

const Json& text_of(const Json& config) {
    return config.contains("text_config") ? config["text_config"] : config;
}

struct Row {
    const char *ours, *theirs;
};
constexpr Row rows[] = {
    {"embed_tokens.weight", "token_embd.weight"},
    {"norm.weight", "output_norm.weight"},
    {"lm_head.weight", "output.weight"},
    {"input_layernorm.weight", "attn_norm.weight"},
    {"post_attention_layernorm.weight", "post_attention_norm.weight"},
    {"linear_attn.in_proj_qkv.weight", "attn_qkv.weight"},
    {"linear_attn.in_proj_z.weight", "attn_gate.weight"},
    {"linear_attn.in_proj_b.weight", "ssm_beta.weight"},
    {"linear_attn.in_proj_a.weight", "ssm_alpha.weight"},
    {"linear_attn.conv1d.weight", "ssm_conv1d.weight"},
    {"linear_attn.A_log", "ssm_a"},
    {"linear_attn.dt_bias", "ssm_dt.bias"},
    {"linear_attn.norm.weight", "ssm_norm.weight"},
    {"linear_attn.out_proj.weight", "ssm_out.weight"},
    {"self_attn.q_proj.weight", "attn_q.weight"},
    {"self_attn.k_proj.weight", "attn_k.weight"},
    {"self_attn.v_proj.weight", "attn_v.weight"},
    {"self_attn.o_proj.weight", "attn_output.weight"},
    {"self_attn.q_norm.weight", "attn_q_norm.weight"},
    {"self_attn.k_norm.weight", "attn_k_norm.weight"},
    {"mlp.gate_proj.weight", "ffn_gate.weight"},
    {"mlp.up_proj.weight", "ffn_up.weight"},
    {"mlp.down_proj.weight", "ffn_down.weight"},
};

/// "model.layers.3.mlp.up_proj.weight" as "blk.3.ffn_up.weight"; "" for a part that converters drop.
std::string their_name(const std::string& name) {
    std::string local = name, block;
    for (const char* prefix : {"model.language_model.", "model."})
        if (local.starts_with(prefix)) {
            local = local.substr(std::string_view(prefix).size());
            break;
        }
    if (local.starts_with("layers.")) {
        const std::size_t dot = local.find('.', 7);
        block = "blk." + local.substr(7, dot - 7) + ".";
        local = local.substr(dot + 1);
    }
    for (const Row& row : rows)
        if (local == row.ours) return block + row.theirs;
    return "";
}

bool is_shifted_norm(const std::string& name) {
    return name.ends_with("norm.weight") && !name.ends_with("linear_attn.norm.weight");
}

void write_settings(GgufWriter& writer, const Json& config) {
    const Json& text = text_of(config);
    const auto number = [&](const char* key) { return text[key].get<std::uint32_t>(); };
    const Json& rope = text.contains("rope_parameters") ? text["rope_parameters"] : text;
    writer.text("general.architecture", "qwen35");
    const auto set = [&](const char* key, std::uint32_t value) {
        writer.number("qwen35." + std::string(key), value);
    };
    set("block_count", number("num_hidden_layers"));
    set("context_length", number("max_position_embeddings"));
    set("embedding_length", number("hidden_size"));
    set("feed_forward_length", number("intermediate_size"));
    set("attention.head_count", number("num_attention_heads"));
    set("attention.head_count_kv", number("num_key_value_heads"));
    set("attention.key_length", number("head_dim"));
    set("attention.value_length", number("head_dim"));
    set("rope.dimension_count",
        std::uint32_t(std::lround(number("head_dim") * rope["partial_rotary_factor"].get<double>())));
    set("full_attention_interval", 4);
    set("ssm.conv_kernel", number("linear_conv_kernel_dim"));
    set("ssm.state_size", number("linear_key_head_dim"));
    set("ssm.group_count", number("linear_num_key_heads"));
    set("ssm.time_step_rank", number("linear_num_value_heads"));
    set("ssm.inner_size", number("linear_num_value_heads") * number("linear_value_head_dim"));
    writer.real("qwen35.attention.layer_norm_rms_epsilon", text["rms_norm_eps"].get<float>());
    writer.real("qwen35.rope.freq_base", rope["rope_theta"].get<float>());
    writer.numbers("qwen35.rope.dimension_sections",
                   rope.contains("mrope_section") ? [&] {
                       auto sections = rope["mrope_section"].get<std::vector<std::int32_t>>();
                       sections.push_back(0);
                       return sections;
                   }()
                                                  : std::vector<std::int32_t>{11, 11, 10, 0});
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
    // The heads of the axis that has them: `inner` values behind each of `width` places, `outer` times.
    const std::size_t first = has_keys ? 2 * key_heads_ * key_width_ : 0, width = is_wide ? value_width_ : 1;
    const std::size_t axis = by_columns ? tensor.shape[1] : tensor.shape[0];
    CHECK(axis == first + value_heads_ * width);
    const std::size_t outer = by_columns ? tensor.shape[0] : 1, inner = tensor.values.size() / outer / axis;
    const std::size_t copies = value_heads_ / key_heads_;
    const std::vector<float> from = tensor.values;
    for (std::size_t o = 0; o < outer; ++o)
        for (std::size_t head = 0; head < value_heads_; ++head)
            for (std::size_t i = 0; i < width * inner; ++i) {
                const std::size_t tiled = head % copies * key_heads_ + head / copies;
                const std::size_t start = (o * axis + first) * inner;
                tensor.values[start + tiled * width * inner + i] = from[start + head * width * inner + i];
            }
}

GgufWriter gguf_of(const std::string& folder, ElementType type, std::optional<ElementType> rounded) {
    const Json config = read_golden_json(folder + "/config.json");
    const HeadOrder order(config);
    const Golden model(folder + "/model.safetensors");
    GgufWriter writer;
    write_settings(writer, config);
    for (const std::string& name : model.names()) {
        const std::string theirs = their_name(name);
        if (theirs.empty()) continue;
        auto tensor = model.floats(name);
        order.tile(name, tensor);
        if (is_shifted_norm(name))
            for (float& value : tensor.values) value += 1.0f;
        if (name.ends_with("A_log"))
            for (float& value : tensor.values) value = -std::exp(value);
        if (name.ends_with("conv1d.weight")) tensor.shape = {tensor.shape[0], tensor.shape[2]};
        const bool is_matrix = tensor.shape.size() == 2 && !name.ends_with("conv1d.weight");
        if (is_matrix && rounded) tensor.values = rounded_to(*rounded, tensor.values);
        writer.floats(theirs, is_matrix ? type : ElementType::f32, tensor.shape, tensor.values);
    }
    return writer;
}

}  // namespace kapitsa

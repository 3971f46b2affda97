#include "model/arch/gguf/qwen/words.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace kapitsa::gguf::qwen {
namespace {

constexpr WholeRange counts{1, 1u << 20};

constexpr GgufName of_attention[] = {
    {"attn_q", "self_attn.q_proj"},      {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},      {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"}, {"attn_k_norm", "self_attn.k_norm"},
    {"attn_qkv", "self_attn.qkv_proj"},  // cut below
};

constexpr GgufName of_delta_net[] = {
    {"attn_qkv", "linear_attn.in_proj_qkv"},
    {"attn_gate", "linear_attn.in_proj_z"},
    {"ssm_beta", "linear_attn.in_proj_b"},
    {"ssm_alpha", "linear_attn.in_proj_a"},
    {"ssm_conv1d", "linear_attn.conv1d", GgufShape::channels_in_front},
    {"ssm_a", "linear_attn.A_log", GgufShape::flat, Stored::as_negated_exponential},
    {"ssm_dt.bias", "linear_attn.dt_bias", GgufShape::flat},
    {"ssm_norm", "linear_attn.norm"},
    {"ssm_out", "linear_attn.out_proj"},
};

/// The part of a head that gives `rotary` again when it is multiplied and cut off.
double part_of(std::uint32_t rotary, std::uint32_t head_width) {
    double part = double(rotary) / head_width;
    if (std::uint32_t(head_width * part) < rotary) part = std::nextafter(part, 1.0);
    return part;
}

Status read_attention(const GgufTranslation& file, Json& config) {
    const ConfigReader& settings = file.settings();
    const auto head_width = TRY(settings.number(file.key("attention.key_length"), counts));
    const auto value_width = TRY(settings.number_or(file.key("attention.value_length"), head_width, counts));
    if (value_width != head_width)
        return fail(Fault::unsupported, settings.field(file.key("attention.value_length")) + " is " +
                                            std::to_string(value_width) + ", and the keys' width is " +
                                            std::to_string(head_width) + "; they must be equal");
    const auto rotary =
        TRY(settings.number_or(file.key("rope.dimension_count"), head_width, {1, head_width}));
    if (const auto scaling = TRY(settings.text_or(file.key("rope.scaling.type"), "none")); scaling != "none")
        return fail(Fault::unsupported, settings.field(file.key("rope.scaling.type")) + " is \"" + scaling +
                                            "\"; none is supported");
    config["num_attention_heads"] = TRY(settings.number(file.key("attention.head_count"), counts));
    config["num_key_value_heads"] = TRY(settings.number(file.key("attention.head_count_kv"), counts));
    config["head_dim"] = head_width;
    config["rms_norm_eps"] = TRY(settings.real(file.key("attention.layer_norm_rms_epsilon"), {0, 1}));
    Json rope = {{"rope_type", "default"}, {"mrope_interleaved", true}};
    rope["rope_theta"] = TRY(settings.real(file.key("rope.freq_base"), {1, 1e12}));
    rope["partial_rotary_factor"] = part_of(rotary, head_width);
    if (settings.has(file.key("rope.dimension_sections"))) {
        auto sections = TRY(settings.numbers(file.key("rope.dimension_sections"), {0, 1u << 20}));
        sections.resize(3);  // time, height, width; the fourth is nobody's
        rope["mrope_section"] = sections;
    }
    config["rope_parameters"] = std::move(rope);
    return Done{};
}

Status read_delta_net(const GgufTranslation& file, Json& config) {
    const ConfigReader& settings = file.settings();
    const auto key_heads = TRY(settings.number(file.key("ssm.group_count"), counts));
    const auto value_heads = TRY(settings.number(file.key("ssm.time_step_rank"), counts));
    const auto inner = TRY(settings.number(file.key("ssm.inner_size"), {1, 1u << 24}));
    if (inner % value_heads != 0)
        return fail(Fault::corrupt_file, settings.field(file.key("ssm.inner_size")) + " is " +
                                             std::to_string(inner) + ", which the " +
                                             std::to_string(value_heads) + " heads do not divide");
    config["linear_num_key_heads"] = key_heads;
    config["linear_num_value_heads"] = value_heads;
    config["linear_key_head_dim"] = TRY(settings.number(file.key("ssm.state_size"), counts));
    config["linear_value_head_dim"] = inner / value_heads;
    config["linear_conv_kernel_dim"] = TRY(settings.number(file.key("ssm.conv_kernel"), counts));
    config["linear_value_heads_tiled"] = true;
    return Done{};
}

}  // namespace

Result<Layers> read_layers(const GgufTranslation& file) {
    const ConfigReader& settings = file.settings();
    const std::uint32_t blocks = TRY(settings.number(file.key("block_count"), {1, 1024}));
    Layers layers;
    layers.next_tokens = TRY(settings.number_or(file.key("nextn_predict_layers"), 0, {0, blocks - 1}));
    layers.trunk = blocks - layers.next_tokens;
    const std::string pattern = file.key("attention.recurrent_layers");
    if (!settings.has(pattern)) {
        const auto interval = TRY(settings.number_or(file.key("full_attention_interval"), 4));
        for (std::uint32_t i = 0; i < layers.trunk; ++i) layers.attends.push_back((i + 1) % interval == 0);
        return layers;
    }
    layers.attends = TRY(file.flags("attention.recurrent_layers", layers.trunk));
    layers.attends.flip();
    return layers;
}

Result<Json> read_model(const GgufTranslation& file, const Layers& layers) {
    const ConfigReader& settings = file.settings();
    Json config = Json::object();
    config["vocab_size"] = TRY(file.vocabulary());
    config["hidden_size"] = TRY(settings.number(file.key("embedding_length"), counts));
    config["num_hidden_layers"] = layers.trunk;
    config["max_position_embeddings"] = TRY(settings.number(file.key("context_length"), token_counts));
    Json kinds = Json::array();
    for (const bool attends : layers.attends)
        kinds.push_back(attends ? "full_attention" : "linear_attention");
    config["layer_types"] = std::move(kinds);
    config["tie_word_embeddings"] = !file.has("output.weight");
    config["mtp_num_hidden_layers"] = layers.next_tokens;
    config["eos_token_id"] = file.token("eos");
    config["bos_token_id"] = file.token("bos");
    TRY(read_attention(file, config));
    TRY(read_delta_net(file, config));
    return config;
}

Status read_experts(const GgufTranslation& file, const Layers& layers, Json& config) {
    const ConfigReader& settings = file.settings();
    const std::uint32_t blocks = layers.trunk + layers.next_tokens;
    config["num_experts"] = TRY(settings.number(file.key("expert_count"), counts));
    config["num_experts_per_tok"] = TRY(settings.number(file.key("expert_used_count"), counts));
    constexpr struct {
        const char *theirs, *ours;
    } widths[] = {{"expert_feed_forward_length", "moe_intermediate_size"},
                  {"expert_shared_feed_forward_length", "shared_expert_intermediate_size"}};
    for (const auto& width : widths) {
        const auto each = TRY(file.by_block(width.theirs, blocks, counts));
        if (each.empty())
            return fail(Fault::corrupt_file, settings.field(file.key(width.theirs)) + " is missing");
        config[width.ours] = TRY(file.the_number(width.theirs, each));
    }
    return Done{};
}

Status rename_layer(GgufTranslation& file, std::uint32_t block, const std::string& prefix, bool attends,
                    const Json& config) {
    TRY(file.rename_block(block, of_feed_forward, prefix));
    if (!attends) return file.rename_block(block, of_delta_net, prefix);
    TRY(file.rename_block(block, of_attention, prefix));
    const std::uint64_t head_width = config["head_dim"].get<std::uint64_t>();
    const std::uint64_t queries = 2 * head_width * config["num_attention_heads"].get<std::uint64_t>(),
                        keys = head_width * config["num_key_value_heads"].get<std::uint64_t>();
    const std::string attention = prefix + "self_attn.";
    const GgufTranslation::Part parts[] = {{attention + "q_proj.weight", queries},
                                           {attention + "k_proj.weight", keys},
                                           {attention + "v_proj.weight", keys}};
    return file.split_rows(attention + "qkv_proj.weight", parts);
}

Status rename_vision(GgufTranslation& file) {
    TRY(file.rename_all("v.", "visual.inside.v."));
    return file.rename_all("mm.", "visual.inside.mm.");
}

}  // namespace kapitsa::gguf::qwen

// How GGUF files say Dory (dory). Names and keys as a public port of the architecture reads them. What every
// file of the family says alike in config.json no key says: it follows from the architecture.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "model/gguf_dialect.h"

namespace kapitsa::gguf {
namespace {

constexpr WholeRange widths{0, 1u << 20};

constexpr GgufName outside[] = {
    {"token_embd", "backbone.embeddings"},
    {"output", "lm_head"},
    {"dory_logit_scale.weight", "lm_head.logit_scale"},
};

// The vectors have no ".weight" in the words of config.json's files.
constexpr GgufName of_attention[] = {
    {"attn_q", "mixer.q_proj"},
    {"attn_k", "mixer.k_proj"},
    {"attn_v", "mixer.v_proj"},
    {"attn_gate", "mixer.g_proj"},
    {"attn_output", "mixer.o_proj"},
    {"dory_sqk.weight", "mixer.sqk"},
    {"dory_s_gate.weight", "mixer.s_gate"},
    {"dory_alpha.weight", "attn_alpha"},
};

constexpr GgufName of_feed_forward[] = {
    {"ffn_gate", "mixer.gate_proj"},        {"ffn_up", "mixer.up_proj"},
    {"ffn_down", "mixer.down_proj"},        {"dory_suv_gate.weight", "mixer.suv_gate"},
    {"dory_suv_up.weight", "mixer.suv_up"}, {"dory_alpha.weight", "mlp_alpha"},
};

/// A number that a key gives once or by layer, where layers of the other kind may have 0.
Status read_number(const GgufTranslation& file, const char* name, std::uint32_t layers, Json& field) {
    const std::uint32_t number = TRY(file.the_number(name, TRY(file.by_block(name, layers, widths))));
    if (number == 0)
        return fail(Fault::corrupt_file, file.settings().field(file.key(name)) + " is missing, or 0");
    field = number;
    return Done{};
}

Status read_attention(const GgufTranslation& file, std::uint32_t layers, Json& config) {
    const ConfigReader& settings = file.settings();
    TRY(read_number(file, "attention.head_count", layers, config["num_attention_heads"]));
    TRY(read_number(file, "attention.head_count_kv", layers, config["num_key_value_heads"]));
    const auto width = TRY(settings.number(file.key("attention.key_length"), widths));
    for (const char* same : {"attention.value_length", "rope.dimension_count"})
        if (const auto other = TRY(settings.number_or(file.key(same), width, widths)); other != width)
            return fail(Fault::unsupported, settings.field(file.key(same)) + " is " + std::to_string(other) +
                                                ", and attention.key_length " + std::to_string(width) +
                                                "; they must be equal");
    config["attention_head_dim"] = width;
    config["swa_window_size"] = TRY(settings.number(file.key("attention.sliding_window"), token_counts));
    const auto profiles = TRY(settings.numbers(file.key("rope.profile"), widths));
    config["rope_profile_layers"] = profiles;
    config["rope_theta"] = TRY(settings.real(file.key("rope.freq_base")));
    if (std::ranges::find(profiles, 2u) != profiles.end())
        config["rope_theta_2"] = TRY(settings.real(file.key("rope.freq_base_2")));
    if (const auto scaling = TRY(settings.text_or(file.key("rope.scaling.type"), "none")); scaling != "none")
        return fail(Fault::unsupported, settings.field(file.key("rope.scaling.type")) + " is \"" + scaling +
                                            "\"; none is supported");
    return Done{};
}

Status read_loops(const GgufTranslation& file, Json& config) {
    const ConfigReader& settings = file.settings();
    constexpr struct {
        const char *theirs, *ours;
    } counts[] = {{"input_layer_count", "n_input_layers"},
                  {"recurrent_layer_count", "n_recurrent_layers"},
                  {"output_layer_count", "n_output_layers"},
                  {"recurrent_loop_count", "n_recurrent_loops"}};
    for (const auto& count : counts)
        config[count.ours] = TRY(settings.number(file.key(count.theirs), widths));
    config["recurrent_kv_cache_mode"] =
        TRY(settings.text_or(file.key("recurrent_kv_cache_mode"), "per_loop"));
    config["init_method_std"] = TRY(settings.real(file.key("init_std")));
    config["ngpt_alpha_init"] = TRY(settings.real(file.key("alpha_init")));
    config["attention_output_gate_logit_scale_init"] = TRY(settings.real(file.key("gate_init")));
    return Done{};
}

Json what_all_say() {
    return {{"model_type", "dory"}, {"dory_format_version", 1},      {"ngpt", true},
            {"fngpt", true},        {"attention_output_gate", true}, {"mlp_hidden_act", "silu"}};
}

Result<Json> translate(GgufTranslation& file) {
    const ConfigReader& settings = file.settings();
    const std::uint32_t layers = TRY(settings.number(file.key("block_count"), {1, 1024}));
    const std::string pattern = TRY(settings.text(file.key("layer_pattern")));
    if (pattern.size() != layers)
        return fail(Fault::corrupt_file, settings.field(file.key("layer_pattern")) + " names " +
                                             std::to_string(pattern.size()) + " layers; block_count says " +
                                             std::to_string(layers));
    Json config = what_all_say();
    config["vocab_size"] = TRY(file.vocabulary());
    config["hidden_size"] = TRY(settings.number(file.key("embedding_length"), widths));
    config["num_hidden_layers"] = layers;
    config["hybrid_layer_pattern"] = pattern;
    config["max_position_embeddings"] = TRY(settings.number(file.key("context_length"), token_counts));
    config["eos_token_id"] = file.token("eos");
    config["bos_token_id"] = file.token("bos");
    TRY(read_number(file, "feed_forward_length", layers, config["intermediate_size"]));
    TRY(read_attention(file, layers, config));
    TRY(read_loops(file, config));
    TRY(file.rename(outside, ""));
    for (std::uint32_t i = 0; i < layers; ++i)
        TRY(file.rename_block(i,
                              pattern[i] == '-' ? std::span<const GgufName>(of_feed_forward) : of_attention,
                              "backbone.layers." + std::to_string(i) + "."));
    return config;
}

constexpr std::string_view architectures[] = {"dory"};

}  // namespace

extern const GgufDialect dory{.architectures = architectures, .translate = translate};

}  // namespace kapitsa::gguf

// How GGUF files say Qwen3.5, dense (qwen35) and with experts (qwen35moe). Norms are stored as 1 + w, as in
// MLX files. qwen/words.h has what the family shares with its relatives.
#include <nlohmann/json.hpp>

#include "model/arch/gguf/qwen/tower.h"
#include "model/arch/gguf/qwen/words.h"

namespace kapitsa::gguf {
namespace {

constexpr GgufName outside[] = {
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
};

constexpr GgufName of_norms[] = {
    {"attn_norm", "input_layernorm"},
    {"post_attention_norm", "post_attention_layernorm"},
};

constexpr GgufName of_next_tokens[] = {
    {"nextn.eh_proj", "fc"},
    {"nextn.enorm", "pre_fc_norm_embedding"},
    {"nextn.hnorm", "pre_fc_norm_hidden"},
    {"nextn.shared_head_norm", "norm"},
};

Status rename(GgufTranslation& file, const qwen::Layers& layers, const Json& config) {
    TRY(file.rename(outside, ""));
    TRY(qwen::rename_vision(file));
    const auto rename_layer = [&](std::uint32_t block, const std::string& prefix, bool attends) -> Status {
        TRY(file.rename_block(block, of_norms, prefix));
        return qwen::rename_layer(file, block, prefix, attends, config);
    };
    for (std::uint32_t i = 0; i < layers.trunk; ++i)
        TRY(rename_layer(i, "model.layers." + std::to_string(i) + ".", layers.attends[i]));
    for (std::uint32_t i = 0; i < layers.next_tokens; ++i) {
        TRY(file.rename_block(layers.trunk + i, of_next_tokens, "mtp."));
        file.repeat("model.norm.weight", "mtp.norm.weight");  // the head's own may be left out
        TRY(rename_layer(layers.trunk + i, "mtp.layers." + std::to_string(i) + ".", true));
    }
    return Done{};
}

Result<Json> translate(GgufTranslation& file) {
    const ConfigReader& settings = file.settings();
    const qwen::Layers layers = TRY(qwen::read_layers(file));
    Json config = TRY(qwen::read_model(file, layers));
    const bool has_experts = settings.has(file.key("expert_count"));
    if (Json pad = file.token_written(qwen::image_token); !pad.is_null())
        config["image_token_id"] = std::move(pad);
    config["model_type"] = has_experts ? "qwen3_5_moe_text" : "qwen3_5_text";
    if (has_experts)
        TRY(qwen::read_experts(file, layers, config));
    else
        config["intermediate_size"] = TRY(settings.number(file.key("feed_forward_length"), {1, 1u << 20}));
    TRY(rename(file, layers, config));
    return config;
}

constexpr std::string_view architectures[] = {"qwen35", "qwen35moe"};

}  // namespace

extern const GgufDialect qwen3_5{
    .architectures = architectures, .translate = translate, .translate_tower = qwen::translate_tower};

}  // namespace kapitsa::gguf

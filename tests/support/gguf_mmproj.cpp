// Vision towers as converters write them beside a GGUF model.
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "support/gguf_conversion.h"

namespace kapitsa {
namespace {

constexpr Row rows[] = {
    {"patch_embed.proj.bias", "v.patch_embd.bias"},
    {"merger.norm.weight", "v.post_ln.weight"},
    {"merger.norm.bias", "v.post_ln.bias"},
    {"merger.linear_fc1.weight", "mm.0.weight"},
    {"merger.linear_fc1.bias", "mm.0.bias"},
    {"merger.linear_fc2.weight", "mm.2.weight"},
    {"merger.linear_fc2.bias", "mm.2.bias"},
    {"norm1.weight", "ln1.weight"},
    {"norm1.bias", "ln1.bias"},
    {"norm2.weight", "ln2.weight"},
    {"norm2.bias", "ln2.bias"},
    {"attn.qkv.weight", "attn_qkv.weight"},
    {"attn.qkv.bias", "attn_qkv.bias"},
    {"attn.proj.weight", "attn_out.weight"},
    {"attn.proj.bias", "attn_out.bias"},
    {"mlp.linear_fc1.weight", "ffn_up.weight"},
    {"mlp.linear_fc1.bias", "ffn_up.bias"},
    {"mlp.linear_fc2.weight", "ffn_down.weight"},
    {"mlp.linear_fc2.bias", "ffn_down.bias"},
};

void settings(GgufWriter& writer, const Json& vision, const Json& preprocessor) {
    writer.text("general.architecture", "clip").text("general.type", "mmproj");
    writer.flag("clip.has_vision_encoder", true).flag("clip.use_gelu", true);
    writer.text("clip.projector_type", "qwen3vl_merger");
    const auto set = [&](const std::string& key, std::uint32_t value) {
        writer.number("clip.vision." + key, value);
    };
    set("projection_dim", number(vision, "out_hidden_size"));
    set("patch_size", number(vision, "patch_size"));
    std::uint32_t side = 1;
    while (side * side < number(vision, "num_position_embeddings")) ++side;
    set("image_size", side * number(vision, "patch_size"));
    set("embedding_length", number(vision, "hidden_size"));
    set("feed_forward_length", number(vision, "intermediate_size"));
    set("block_count", number(vision, "depth"));
    set("attention.head_count", number(vision, "num_heads"));
    set("spatial_merge_size", number(vision, "spatial_merge_size"));
    set("image_min_pixels", number(preprocessor["size"], "shortest_edge"));
    set("image_max_pixels", number(preprocessor["size"], "longest_edge"));
    writer.real("clip.vision.attention.layer_norm_epsilon", 1e-6f);
    writer.flags("clip.vision.is_deepstack_layers", std::vector<bool>(number(vision, "depth"), false));
    writer.reals("clip.vision.image_mean", {0.5f, 0.5f, 0.5f});
    writer.reals("clip.vision.image_std", {0.5f, 0.5f, 0.5f});
}

/// [width, 3, 2, side, side] as a tensor for each of the two frames.
void add_patches(GgufWriter& writer, const Array<float>& kernel) {
    CHECK(kernel.shape.size() == 5 && kernel.shape[2] == 2);
    const std::size_t area = kernel.shape[3] * kernel.shape[4], channels = kernel.shape[0] * kernel.shape[1];
    for (std::size_t frame = 0; frame < 2; ++frame) {
        std::vector<float> values;
        for (std::size_t channel = 0; channel < channels; ++channel) {
            const auto from = kernel.values.begin() + std::ptrdiff_t((channel * 2 + frame) * area);
            values.insert(values.end(), from, from + std::ptrdiff_t(area));
        }
        writer.floats(frame == 0 ? "v.patch_embd.weight" : "v.patch_embd.weight.1", ElementType::f32,
                      {kernel.shape[0], kernel.shape[1], kernel.shape[3], kernel.shape[4]}, values);
    }
}

}  // namespace

GgufWriter mmproj_of(const std::string& folder, ElementType type, std::optional<ElementType> rounded) {
    GgufWriter writer;
    settings(writer, read_golden_json(folder + "/config.json")["vision_config"],
             read_golden_json(folder + "/preprocessor_config.json"));
    Converter converter(writer, rows, type, rounded);
    constexpr std::string_view module = "model.visual.";
    for (auto& [full, tensor] : tensors_of(folder)) {
        if (!full.starts_with(module)) continue;
        std::string local = full.substr(module.size()), block;
        if (local.starts_with("blocks.")) {
            const std::size_t dot = local.find('.', 7);
            block = "v.blk." + local.substr(7, dot - 7) + ".";
            local = local.substr(dot + 1);
        }
        if (local == "patch_embed.proj.weight")
            add_patches(writer, tensor);
        else if (local == "pos_embed.weight")
            writer.floats("v.position_embd.weight", ElementType::f32, tensor.shape, tensor.values);
        else
            converter.add(block, local, std::move(tensor));
    }
    return writer;
}

void add_vocabulary(GgufWriter& writer, const std::string& folder) {
    const Json config = read_golden_json(folder + "/config.json");
    std::vector<std::string> tokens(number(text_of(config), "vocab_size"));
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = "[" + std::to_string(i) + "]";
    tokens[number(config, "image_token_id")] = "<|image_pad|>";
    writer.texts("tokenizer.ggml.tokens", tokens);
}

}  // namespace kapitsa

#include "model/arch/gguf/qwen/tower.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "model/config_rules.h"

namespace kapitsa::gguf::qwen {
namespace {

constexpr std::string_view projector = "qwen3vl_merger";
constexpr std::uint32_t frames = 2;  // a patch's; the file has a kernel for each, and no number

constexpr GgufName outside[] = {
    {"v.patch_embd", "patch_embed.proj"}, {"v.patch_embd.weight.1", "patch_embed.proj.weight.1"},
    {"v.position_embd", "pos_embed"},     {"v.post_ln", "merger.norm"},
    {"mm.0", "merger.linear_fc1"},        {"mm.2", "merger.linear_fc2"},
};

constexpr GgufName of_block[] = {
    {"ln1", "norm1"},
    {"ln2", "norm2"},
    {"attn_qkv", "attn.qkv"},
    {"attn_q", "attn.q"},
    {"attn_k", "attn.k"},
    {"attn_v", "attn.v"},
    {"attn_out", "attn.proj"},
    {"ffn_up", "mlp.linear_fc1"},
    {"ffn_down", "mlp.linear_fc2"},
};

/// All that is understood. What else stands below "clip." and is set would change what is computed.
constexpr std::string_view known[] = {
    "clip.projector_type",
    "clip.vision.projector_type",
    "clip.has_vision_encoder",
    "clip.has_audio_encoder",
    "clip.has_text_encoder",
    "clip.has_llava_projector",  // of old files: that there is a projector
    "clip.use_gelu",
    "clip.use_silu",
    "clip.vision.block_count",
    "clip.vision.embedding_length",
    "clip.vision.feed_forward_length",
    "clip.vision.projection_dim",
    "clip.vision.patch_size",
    "clip.vision.image_size",
    "clip.vision.spatial_merge_size",
    "clip.vision.attention.head_count",
    "clip.vision.attention.layer_norm_epsilon",
    "clip.vision.is_deepstack_layers",
    "clip.vision.image_mean",
    "clip.vision.image_std",
    "clip.vision.image_min_pixels",
    "clip.vision.image_max_pixels",
};

bool is_set(const Json& value) {
    if (value.is_array()) return std::ranges::any_of(value, is_set);
    if (value.is_string()) return !value.get_ref<const std::string&>().empty();
    return !(value.is_null() || value == false || value == 0);
}

Status refuse_unknown(const ConfigReader& settings) {
    for (const auto& [key, value] : settings.json().items())
        if (key.starts_with("clip.") && is_set(value) && std::ranges::find(known, key) == std::end(known))
            return fail(Fault::unsupported,
                        settings.field(key) + " is not known of such towers and may change what is computed");
    return Done{};
}

/// Whether the tower is one of this family's, and of this model's.
Status expect_belonging(const GgufTranslation& tower, const Json& model) {
    const ConfigReader& settings = tower.settings();
    // The second is where files of towers and ears together say it.
    const char *plain = "clip.projector_type", *second = "clip.vision.projector_type";
    const char* key = settings.has(plain) || !settings.has(second) ? plain : second;
    if (const auto type = TRY(settings.text(key)); type != projector)
        return fail(Fault::invalid_input, "it belongs to another model: " + settings.field(key) + " is \"" +
                                              type + "\", and this model's tower has \"" +
                                              std::string(projector) + "\"");
    const ConfigReader text(model, "metadata");
    const auto width = TRY(text.number("hidden_size"));
    const auto given = TRY(settings.number("clip.vision.projection_dim", {1, 1u << 20}));
    if (given != width)
        return fail(Fault::invalid_input,
                    "it belongs to another model: " + settings.field("clip.vision.projection_dim") + " is " +
                        std::to_string(given) + ", and this model is " + std::to_string(width) + " wide");
    if (text.has("image_token_id")) return Done{};
    return fail(Fault::unsupported, "the model's vocabulary has no " + std::string(image_token) +
                                        ", which stands for an image in its prompts");
}

Status refuse_variants(const GgufTranslation& tower) {
    const ConfigReader& settings = tower.settings();
    TRY(refuse_unknown(settings));
    TRY(expect_flag(settings, "clip.has_vision_encoder", true));
    TRY(expect_flag(settings, "clip.has_audio_encoder", false));
    TRY(expect_flag(settings, "clip.has_text_encoder", false));
    TRY(expect_flag(settings, "clip.use_silu", false));
    if (!TRY(settings.flag("clip.use_gelu")))  // without it, readers take another curve
        return fail(Fault::unsupported, settings.field("clip.use_gelu") + " must be true in this family");
    const char* epsilon = "clip.vision.attention.layer_norm_epsilon";
    if (float(TRY(settings.real_or(epsilon, 1e-6f))) != 1e-6f)
        return fail(Fault::unsupported, settings.field(epsilon) + " must be 1e-06 in this family");
    const char* deepstack = "clip.vision.is_deepstack_layers";
    if (const auto taps = settings.json().find(deepstack); taps != settings.json().end() && is_set(*taps))
        return fail(Fault::unsupported,
                    settings.field(deepstack) +
                        " names layers whose output goes into the text; in this family there are none");
    return Done{};
}

/// @return vision_config
Result<Json> read_numbers(const GgufTranslation& tower) {
    const ConfigReader& settings = tower.settings();
    constexpr WholeRange widths{1, 1u << 16};
    Json vision = {{"hidden_act", "gelu_pytorch_tanh"}, {"in_channels", 3}, {"temporal_patch_size", frames}};
    const auto patch = TRY(settings.number("clip.vision.patch_size", {1, 256}));
    vision["patch_size"] = patch;
    vision["spatial_merge_size"] = TRY(settings.number_or("clip.vision.spatial_merge_size", 2, {1, 16}));
    vision["out_hidden_size"] = TRY(settings.number("clip.vision.projection_dim", widths));
    vision["depth"] = TRY(settings.number("clip.vision.block_count", {1, 1024}));
    vision["hidden_size"] = TRY(settings.number("clip.vision.embedding_length", widths));
    vision["intermediate_size"] = TRY(settings.number("clip.vision.feed_forward_length", widths));
    vision["num_heads"] = TRY(settings.number("clip.vision.attention.head_count", {1, 4096}));
    // The size of image that the square of learned positions was made for.
    const auto size = TRY(settings.number("clip.vision.image_size", {1, 1u << 18})), side = size / patch;
    const auto table = TRY(tower.shape("v.position_embd.weight"));
    const std::uint64_t places = table.empty() ? 0 : table.front();
    if (side == 0 || side > 1024 || std::uint64_t(side) * side != places)
        return fail(Fault::corrupt_file,
                    settings.field("clip.vision.image_size") + " is " + std::to_string(size) +
                        " and patch_size " + std::to_string(patch) +
                        "; the table of positions (v.position_embd.weight) has " + std::to_string(places) +
                        " places, which must be " + "the square of their quotient");
    vision["num_position_embeddings"] = places;
    return vision;
}

using Channels = std::array<double, 3>;
constexpr Channels half{0.5, 0.5, 0.5};
// CLIP's: converters write these where the model's own are missing. Source: the reference's image processors.
constexpr Channels clip_mean{0.48145466, 0.4578275, 0.40821073}, clip_std{0.26862954, 0.26130258, 0.27577711};

/// Nothing where the file does not say it, or says CLIP's.
Result<std::optional<Channels>> read_channels(const ConfigReader& settings, const char* key, double least,
                                              const Channels& of_clip) {
    if (!settings.has(key)) return std::nullopt;
    const auto values = TRY(settings.reals(key, {least, 1e6}));
    if (values.size() != of_clip.size())
        return fail(Fault::corrupt_file, settings.field(key) + " has " + std::to_string(values.size()) +
                                             " values; there are three channels");
    Channels channels{};
    std::ranges::copy(values, channels.begin());
    const auto close = [](double a, double b) { return std::abs(a - b) < 1e-4; };
    if (std::ranges::equal(channels, of_clip, close)) return std::nullopt;
    return channels;
}

/// @return preprocessor_config.json
Result<Json> read_preparation(const GgufTranslation& tower, const Json& vision) {
    const ConfigReader& settings = tower.settings();
    Json config = {{"patch_size", vision["patch_size"]},
                   {"merge_size", vision["spatial_merge_size"]},
                   {"temporal_patch_size", frames}};
    const auto mean = TRY(read_channels(settings, "clip.vision.image_mean", -1e6, clip_mean));
    const auto deviation = TRY(read_channels(settings, "clip.vision.image_std", 1e-6, clip_std));
    config["image_mean"] = mean && deviation ? *mean : half;
    config["image_std"] = mean && deviation ? *deviation : half;
    constexpr WholeRange pixels{1, 1u << 30};
    const std::uint64_t side =
        vision["patch_size"].get<std::uint64_t>() * vision["spatial_merge_size"].get<std::uint64_t>();
    const auto least = TRY(settings.number_or("clip.vision.image_min_pixels", 65536, pixels));
    const auto most = TRY(settings.number_or("clip.vision.image_max_pixels", 16777216, pixels));
    if (most < std::max<std::uint64_t>(least, side * side))
        return fail(Fault::corrupt_file, settings.field("clip.vision.image_max_pixels") + " is " +
                                             std::to_string(most) +
                                             ", fewer than the least, or than one token stands for");
    config["min_pixels"] = least;
    config["max_pixels"] = most;
    return config;
}

/// Before they are renamed, so that what is missing is called what the file would call it.
Status expect_tensors(const GgufTranslation& tower, std::uint32_t blocks) {
    for (const char* name :
         {"v.patch_embd.weight", "v.patch_embd.weight.1", "v.patch_embd.bias", "v.post_ln.weight",
          "v.post_ln.bias", "mm.0.weight", "mm.0.bias", "mm.2.weight", "mm.2.bias"})
        TRY(tower.shape(name));
    for (std::uint32_t i = 0; i < blocks; ++i) {
        const std::string block = "v.blk." + std::to_string(i) + ".";
        std::vector<std::string_view> modules{"ln1", "ln2", "attn_out", "ffn_up", "ffn_down"};
        if (tower.has(block + "attn_q.weight"))
            modules.insert(modules.end(), {"attn_q", "attn_k", "attn_v"});
        else
            modules.emplace_back("attn_qkv");
        for (const std::string_view module : modules)
            for (const char* end : {".weight", ".bias"}) TRY(tower.shape(block + std::string(module) + end));
    }
    return Done{};
}

}  // namespace

Status translate_tower(GgufTranslation& tower, const Json& model) {
    TRY(expect_belonging(tower, model));
    TRY(refuse_variants(tower));
    Json vision = TRY(read_numbers(tower));
    Json preprocessor = TRY(read_preparation(tower, vision));
    const auto blocks = vision["depth"].get<std::uint32_t>();
    TRY(expect_tensors(tower, blocks));
    const std::string module = "model.visual.";
    TRY(tower.rename(outside, module));
    for (std::uint32_t i = 0; i < blocks; ++i)
        TRY(tower.rename_under("v.blk." + std::to_string(i) + ".", of_block,
                               module + "blocks." + std::to_string(i) + "."));
    Json config = Json::object();
    config["vision_config"] = std::move(vision);
    tower.describe(std::move(config), std::move(preprocessor));
    return Done{};
}

}  // namespace kapitsa::gguf::qwen

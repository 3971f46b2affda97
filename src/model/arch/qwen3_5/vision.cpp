#include "model/arch/qwen3_5/vision.h"

#include <cmath>

#include "model/config_rules.h"
#include "model/layers/vision_tower.h"

namespace kapitsa::qwen3_5_vision {
namespace {

Status refuse_variants(const ConfigReader& vision) {
    TRY(expect_text(vision, "hidden_act", "gelu_pytorch_tanh"));
    TRY(expect_number(vision, "in_channels", 3));
    if (vision.has("deepstack_visual_indexes") &&
        !TRY(vision.numbers("deepstack_visual_indexes", {0, 1024})).empty())
        return fail(Fault::unsupported,
                    vision.field("deepstack_visual_indexes") +
                        " names layers whose output goes into the text; in this family there are none");
    return Done{};
}

Result<VisionTower::Numbers> read(const ConfigReader& vision, std::uint32_t width) {
    TRY(refuse_variants(vision));
    constexpr WholeRange widths{1, 1u << 16};
    VisionTower::Numbers n;
    n.shape.side = TRY(vision.number_or("patch_size", 16, {1, 256}));
    n.shape.block = TRY(vision.number_or("spatial_merge_size", 2, {1, 16}));
    n.shape.frames = TRY(vision.number_or("temporal_patch_size", 2, {1, 16}));
    n.shape.width = TRY(vision.number_or("out_hidden_size", width, widths));
    n.layers = TRY(vision.number("depth", {1, 1024}));
    n.width = TRY(vision.number("hidden_size", widths));
    n.inner = TRY(vision.number("intermediate_size", widths));
    n.heads = TRY(vision.number("num_heads", {1, 4096}));
    const std::uint32_t places = TRY(vision.number_or("num_position_embeddings", 2304, {1, 1u << 20}));
    n.table_side = std::uint32_t(std::lround(std::sqrt(double(places))));
    n.epsilon = 1e-6f;
    n.rope_theta = 10000;
    if (n.table_side * n.table_side != places)
        return fail(Fault::unsupported, vision.field("num_position_embeddings") + " is no square");
    if (n.width % n.heads != 0 || n.head_width() % 4 != 0)
        return fail(Fault::unsupported, vision.field("hidden_size") + " over num_heads is no multiple of 4");
    if (n.shape.width != width)
        return fail(Fault::corrupt_file, vision.field("out_hidden_size") + " is " +
                                             std::to_string(n.shape.width) + ", and the text's hidden_size " +
                                             std::to_string(width));
    return n;
}

}  // namespace

Result<std::unique_ptr<Tower>> load(const Json& config, Weights& weights, std::uint32_t width) {
    const ConfigReader file(config, "config.json");
    for (const char* module : {"model.visual", "visual", "vision_tower"}) {
        if (!weights.has(std::string(module) + ".patch_embed.proj.weight")) continue;
        const ConfigReader vision = TRY(file.child("vision_config"));
        return VisionTower::load(weights, module, TRY(read(vision, width)));
    }
    return nullptr;
}

}  // namespace kapitsa::qwen3_5_vision

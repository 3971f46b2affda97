#include "formats/quantized_layers.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace kapitsa {
namespace {

using Kind = QuantizedForm::Kind;
constexpr QuantizedForm nvfp4{Kind::nvfp4, 16, 4}, fp8{Kind::fp8, 0, 8}, mxfp8{Kind::mxfp8, 32, 8};

/// "" where nothing speaks against the form, else the message.
std::string answer(const std::string& config, const std::string& module, QuantizedForm stored,
                   const std::string& hf_quant_config = "") {
    const Json extra = hf_quant_config.empty() ? Json() : *parse_json(hf_quant_config);
    const auto layers = QuantizedLayers::read(*parse_json(config), extra.is_null() ? nullptr : &extra);
    if (!layers) return layers.error().message;
    const auto status = layers->expect(module, stored);
    return status ? "" : status.error().message;
}
std::string section(const std::string& members) { return "{\"quantization_config\":{" + members + "}}"; }

TEST(QuantizedLayers, NothingSaidIsNoContradiction) {
    for (const char* config : {"{}", R"({"quantization_config":{"group_size":64,"bits":4}})",
                               R"({"quantization":{"group_size":64,"bits":4}})"})
        EXPECT_EQ(answer(config, "a.b", fp8), "") << config;
}

TEST(QuantizedLayers, ModelOptSaysItInEitherFile) {
    constexpr const char* own = R"({"producer":{"name":"modelopt"},"quantization":{"quant_algo":"NVFP4",
        "kv_cache_quant_algo":"FP8","group_size":16,"exclude_modules":["lm_head","model.layers.0*"]}})";
    EXPECT_EQ(answer("{}", "model.layers.1.up", nvfp4, own), "");
    EXPECT_EQ(
        answer("{}", "model.layers.1.up", fp8, own),
        "model.layers.1.up is stored as fp8; by hf_quant_config.json: quantization.quant_algo it is nvfp4");
    EXPECT_EQ(
        answer("{}", "model.layers.0.up", nvfp4, own),
        "model.layers.0.up is stored as nvfp4; by hf_quant_config.json: quantization.exclude_modules it "
        "is not quantised");
    const std::string config =
        section(R"("quant_method":"modelopt","quant_algo":"FP8","ignore":["lm_head"])");
    EXPECT_EQ(answer(config, "a", fp8, own), "");  // config.json counts
    EXPECT_NE(answer(config, "lm_head", fp8, own), "");
}

TEST(QuantizedLayers, MixedPrecisionNamesEachLayer) {
    const std::string config = section(R"("quant_method":"modelopt","quant_algo":"MIXED_PRECISION",
        "quantized_layers":{"a.up":{"quant_algo":"NVFP4","group_size":16},"a.q":{"quant_algo":"FP8"},
        "a.r":{"quant_algo":"MXFP8"}})");
    EXPECT_EQ(answer(config, "a.up", nvfp4), "");
    EXPECT_EQ(answer(config, "a.q", fp8), "");
    EXPECT_EQ(answer(config, "a.r", mxfp8), "");
    EXPECT_NE(answer(config, "a.q", nvfp4).find("by config.json: quantization_config.quantized_layers"),
              std::string::npos);
    EXPECT_EQ(answer(config, "a.other", nvfp4), "");
}

TEST(QuantizedLayers, CompressedTensorsHasGroupsOfTargets) {
    const std::string config =
        section(R"__("quant_method":"compressed-tensors","format":"nvfp4-pack-quantized",
        "ignore":["lm_head","re:.*mlp\\.gate$","re:model.visual.*","re:(a|b)"],"config_groups":{
        "group_0":{"targets":["re:.*self_attn.*"],"format":"float-quantized",
            "weights":{"num_bits":8,"type":"float","strategy":"channel","symmetric":true,"group_size":null}},
        "group_1":{"targets":["Linear"],"weights":{"num_bits":4,"type":"float","group_size":16}}})__");
    EXPECT_EQ(answer(config, "model.layers.0.mlp.up_proj", nvfp4), "");
    EXPECT_EQ(answer(config, "model.layers.0.self_attn.q_proj", fp8), "");
    EXPECT_NE(answer(config, "model.layers.0.self_attn.q_proj", nvfp4), "");
    EXPECT_NE(answer(config, "model.layers.0.mlp.gate", nvfp4), "");
    EXPECT_EQ(answer(config, "model.layers.0.mlp.gate_proj", nvfp4), "");
    EXPECT_NE(answer(config, "model.visual.x", nvfp4), "");
}

TEST(QuantizedLayers, Fp8HasTilesOfItsOwn) {
    const auto layers = QuantizedLayers::read(
        *parse_json(section(R"("quant_method":"fp8","fmt":"e4m3","activation_scheme":"dynamic",
            "weight_block_size":[64,32],"modules_to_not_convert":["lm_head"])")),
        nullptr);
    ASSERT_TRUE(layers.has_value());
    EXPECT_EQ(layers->tile_rows(), 64u);
    EXPECT_EQ(layers->tile_columns(), 32u);
    EXPECT_TRUE(layers->expect("x", fp8).has_value());
    EXPECT_FALSE(layers->expect("lm_head", fp8).has_value());
}

TEST(QuantizedLayers, WhatWeCannotComputeIsRefusedByItsField) {
    const auto refusal = [](const std::string& members) { return answer(section(members), "x", fp8); };
    const auto names = [&](const std::string& members, const std::string& part) {
        const std::string message = refusal(members);
        EXPECT_NE(message.find(part), std::string::npos) << message;
    };
    names(R"("quant_method":"gptq")", "quantization_config.quant_method is \"gptq\"");
    names(R"("quant_method":3)", "quantization_config.quant_method is 3; it must be a string");
    names(R"("quant_method":"modelopt","quant_algo":"INT4_AWQ")", "quant_algo is \"INT4_AWQ\"");
    names(R"("quant_method":"modelopt","quant_algo":"NVFP4","group_size":32)", "group_size is 32");
    names(R"("quant_method":"modelopt","quant_algo":"NVFP4","pre_quant_scale":true)",
          "pre_quant_scale is true");
    names(R"("quant_method":"modelopt","quant_algo":"MIXED_PRECISION","quantized_layers":{"a":3})",
          "\"a\" must be");
    names(R"("quant_method":"fp8","fmt":"e5m2")", "fmt is \"e5m2\"");
    names(R"("quant_method":"fp8","weight_block_size":[128])", "weight_block_size must be two numbers");
    names(R"("quant_method":"compressed-tensors")", "config_groups is missing");
    names(
        R"("quant_method":"compressed-tensors","config_groups":{"g":{"targets":["Linear"],"format":"pack-quantized",
          "weights":{"num_bits":4,"type":"int"}}})",
        "format is \"pack-quantized\"");
    names(R"("quant_method":"compressed-tensors","config_groups":{"g":{"targets":["Linear"],
          "weights":{"num_bits":4,"type":"int","group_size":32}}})",
          "weights of 4 bits, type \"int\", groups of 32");
    names(
        R"("quant_method":"compressed-tensors","config_groups":{},"sparsity_config":{"format":"sparse-24"})",
        "sparsity_config");
}

TEST(QuantizedLayers, PatternsFitWholeNames) {
    EXPECT_TRUE(fits("a.b", "a.b"));
    EXPECT_FALSE(fits("a.b", "a.bc"));
    EXPECT_TRUE(fits("a*", "a.b.c"));
    EXPECT_TRUE(fits("*b*d", "abcdbd"));
    EXPECT_FALSE(fits("*b*d", "abcdbc"));
    EXPECT_TRUE(fits("**", ""));
    EXPECT_FALSE(fits("", "a"));
    EXPECT_FALSE(fits(std::string(200, '*') + "x", std::string(20000, 'a')));
}

TEST(QuantizedLayers, RegularExpressionsOfTheSimpleKindBecomePatterns) {
    EXPECT_EQ(pattern_of_regex(R"(.*mlp\.gate$)"), "*mlp.gate");
    EXPECT_EQ(pattern_of_regex("^visual.x"), "visual.x*");
    EXPECT_EQ(pattern_of_regex("a.*b.*"), "a*b**");
    for (const char* other : {"(a|b)", "a+", "a\\d", "[ab]", "a?", "a*", "a\\"})
        EXPECT_EQ(pattern_of_regex(other), std::nullopt) << other;
}

}  // namespace
}  // namespace kapitsa

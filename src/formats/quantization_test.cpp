#include "formats/quantization.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace kapitsa {
namespace {

/// "64x4", "16x4 nvfp4", "plain", or the message.
std::string form_of(std::string_view config, std::string_view module) {
    const auto quantization = Quantization::read(*parse_json(config));
    if (!quantization) return quantization.error().message;
    const auto form = quantization->of(module);
    if (!form) return form.error().message;
    if (!*form) return "plain";
    const std::string numbers = std::to_string((*form)->group_size) + "x" + std::to_string((*form)->bits);
    return (*form)->kind == QuantizedForm::Kind::affine ? numbers : numbers + " " + name_of(**form);
}

TEST(Quantization, AModelWithoutTheFieldIsPlain) {
    EXPECT_EQ(form_of("{}", "lm_head"), "plain");
    EXPECT_EQ(form_of(R"({"quantization":null})", "lm_head"), "plain");
}

TEST(Quantization, AModuleHasItsOwnFormOrTheModels) {
    constexpr std::string_view config = R"({"quantization":{"group_size":64,"bits":4,"mode":"affine",
        "a.plain":false,"a.same":true,"a.own":{"group_size":32,"bits":8},"a.mlx":{"bits":6}},
        "quantization_config":{"group_size":128,"bits":2}})";
    EXPECT_EQ(form_of(config, "other"), "64x4");
    EXPECT_EQ(form_of(config, "a.plain"), "plain");
    EXPECT_EQ(form_of(config, "a.same"), "64x4");
    EXPECT_EQ(form_of(config, "a.own"), "32x8");
    EXPECT_EQ(form_of(config, "a.mlx"), "64x6");
    EXPECT_EQ(form_of(config, "mode"), "64x4");
}

TEST(Quantization, TheCopyCountsWhereTheFieldIsAbsent) {
    EXPECT_EQ(form_of(R"({"quantization_config":{"group_size":128,"bits":2}})", "x"), "128x2");
    EXPECT_EQ(form_of(R"({"quantization_config":{"quant_method":"fp8"}})", "x"), "plain");  // not MLX's
}

TEST(Quantization, ModesOfSmallFloatsHaveOneFormEach) {
    constexpr std::string_view config = R"({"quantization":{"group_size":16,"bits":4,"mode":"nvfp4",
        "a":{"mode":"mxfp4"},"b":{"mode":"mxfp8","group_size":32,"bits":8},"c":{"mode":"nvfp4","group_size":32},
        "d":{"mode":"mxfp8","bits":4},"e":{"group_size":64,"bits":8}}})";
    EXPECT_EQ(form_of(config, "x"), "16x4 nvfp4");
    EXPECT_EQ(form_of(config, "a"), "32x4 mxfp4");
    EXPECT_EQ(form_of(config, "b"), "32x8 mxfp8");
    EXPECT_EQ(form_of(config, "c"),
              "config.json: quantization.\"c\" has groups of 32; supported are groups of 16 in this mode");
    EXPECT_EQ(form_of(config, "d"),
              "config.json: quantization.\"d\" has 4 bits; supported are 8 in this mode");
    EXPECT_EQ(form_of(config, "e"), "64x8");
}

TEST(Quantization, AFormWeCannotComputeIsRefusedForTheModuleThatHasIt) {
    constexpr std::string_view config = R"({"quantization":{"group_size":32,"bits":4,"mode":"hqq",
        "good":{"group_size":64,"bits":5},"bits7":{"group_size":64,"bits":7},"group":{"group_size":16,"bits":4}}})";
    EXPECT_EQ(form_of(config, "x"),
              "config.json: quantization has the mode \"hqq\"; supported are affine, mxfp4, mxfp8 and nvfp4");
    EXPECT_EQ(form_of(config, "good"), "64x5");
    EXPECT_EQ(form_of(config, "bits7"),
              "config.json: quantization.\"bits7\" has 7 bits; supported are 2, 3, 4, 5, 6 and 8 bits");
    EXPECT_EQ(form_of(config, "group"),
              "config.json: quantization.\"group\" has groups of 16; supported are groups of 32, 64 and 128");
}

TEST(Quantization, EveryFormOfTheFormatIsTakenAndNoOther) {
    for (int bits = 1; bits <= 9; ++bits)
        for (const int group : {16, 32, 64, 128, 256}) {
            const std::string form = form_of("{\"quantization\":{\"group_size\":" + std::to_string(group) +
                                                 ",\"bits\":" + std::to_string(bits) + "}}",
                                             "x");
            const bool good = bits >= 2 && bits <= 8 && bits != 7 && group >= 32 && group <= 128;
            EXPECT_EQ(form == std::to_string(group) + "x" + std::to_string(bits), good) << form;
        }
}

TEST(Quantization, FieldsOfAnotherKindAreNamed) {
    EXPECT_EQ(form_of(R"({"quantization":4})", "x"), "config.json: quantization is 4; it must be an object");
    EXPECT_EQ(form_of(R"({"quantization":{"bits":4}})", "x"),
              "config.json: quantization.group_size is missing");
    EXPECT_EQ(form_of(R"({"quantization":{"group_size":64,"bits":4,"a":{"bits":-1}}})", "x"),
              "config.json: quantization.\"a\": bits is -1; it must be a whole number from 1 to 1000000");
    EXPECT_EQ(form_of(R"({"quantization":{"group_size":64,"bits":4,"mode":1}})", "x"),
              "config.json: quantization: mode is 1; it must be a string");
}

}  // namespace
}  // namespace kapitsa

#include "image/preprocessor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "image/decode.h"
#include "image/resize.h"
#include "support/golden.h"

namespace kapitsa {
namespace {

using testing::HasSubstr;

Preprocessor of_golden() {
    return *Preprocessor::read(
        &static_cast<const Json&>(read_golden_json("qwen3_5-vision/preprocessor_config.json")));
}

Picture picture_of(const Preprocessor& preprocessor, const std::string& name) {
    std::ifstream in(KAPITSA_SOURCE_DIR "/tests/data/goldens/qwen3_5-vision/" + name, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    return *preprocessor.picture(*decode_image(as_bytes(bytes)));
}

TEST(Preprocessor, ThePixelsAreTheReferences) {
    const Preprocessor preprocessor = of_golden();
    const auto expected = Golden("qwen3_5-vision/golden.safetensors").floats("image.pixel_values");
    std::size_t at = 0;
    for (const char* name : {"image_0.png", "image_1.png"}) {
        const Picture picture = picture_of(preprocessor, name);
        EXPECT_EQ(picture.rows, 4u);
        EXPECT_EQ(picture.columns, 6u);
        const std::size_t area = std::size_t(picture.side) * picture.side;
        for (std::size_t patch = 0; patch < picture.patches(); ++patch)
            for (std::size_t c = 0; c < 3; ++c)
                for (std::uint32_t frame = 0; frame < preprocessor.frames(); ++frame)
                    for (std::size_t i = 0; i < area; ++i, ++at) {
                        const float pixel = picture.pixels[(patch * 3 + c) * area + i];
                        ASSERT_NEAR(pixel * picture.scale[c] + picture.shift[c], expected.values[at], 1e-6)
                            << name << ", value " << at;
                    }
    }
    EXPECT_EQ(at, expected.values.size());
}

Preprocessor::Extent extent(std::uint32_t width, std::uint32_t height) {
    return *Preprocessor::read(nullptr)->extent_of(width, height);
}

// Python, with the reference's smart_resize and the published bounds.
TEST(Preprocessor, SizesAreTheReferences) {
    using E = Preprocessor::Extent;
    EXPECT_EQ(extent(640, 480), (E{640, 480}));
    EXPECT_EQ(extent(1008, 1040), (E{1024, 1024}));  // 31.5 and 32.5 blocks: both to the even 32
    EXPECT_EQ(extent(100, 50), (E{384, 192}));       // fewer than the least
    EXPECT_EQ(extent(1, 1), (E{256, 256}));
    EXPECT_EQ(extent(8000, 4000), (E{5792, 2880}));  // more than the most
}

TEST(Preprocessor, ALimitOfPatchesHolds) {
    Preprocessor preprocessor = *Preprocessor::read(nullptr);
    preprocessor.limit_patches(1024);
    const auto extent = *preprocessor.extent_of(4000, 3000);
    EXPECT_LE(extent.width / 16 * (extent.height / 16), 1024u);
    EXPECT_EQ(extent, (Preprocessor::Extent{576, 416}));
}

TEST(Preprocessor, AStripIsRefused) {
    const auto refused = Preprocessor::read(nullptr)->extent_of(4001, 20);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, HasSubstr("4001 x 20"));
    EXPECT_TRUE(Preprocessor::read(nullptr)->extent_of(4000, 20));
}

std::string refusal(const Json& file) {
    const auto read = Preprocessor::read(&file);
    return read ? "read" : read.error().message;
}

TEST(Preprocessor, BothSpellingsOfTheBoundsAreRead) {
    for (const Json& file : {Json{{"min_pixels", 1024}, {"max_pixels", 4096}},
                             Json{{"size", {{"shortest_edge", 1024}, {"longest_edge", 4096}}}},
                             Json{{"image_processor", {{"min_pixels", 1024}, {"max_pixels", 4096}}}}})
        EXPECT_EQ(*Preprocessor::read(&file)->extent_of(640, 640), (Preprocessor::Extent{64, 64})) << file;
}

TEST(Preprocessor, WhatIsNotDoneIsRefusedByItsField) {
    EXPECT_THAT(refusal({{"do_resize", false}}), HasSubstr("preprocessor_config.json: do_resize is false"));
    EXPECT_THAT(refusal({{"resample", 2}}), HasSubstr("bicubic"));
    EXPECT_THAT(refusal({{"image_mean", {0.5, 0.5}}}), HasSubstr("three channels"));
    EXPECT_THAT(refusal({{"image_std", {0, 0, 0}}}), HasSubstr("image_std"));
    EXPECT_THAT(refusal({{"min_pixels", 4096}, {"max_pixels", 1024}}), HasSubstr("the most pixels"));
    EXPECT_EQ(refusal({{"resample", 3}, {"image_mean", {0.1, 0.2, 0.3}}}), "read");
}

TEST(Resize, OneColourStaysItself) {
    Pixels grey = Pixels::of(37, 11);
    std::ranges::fill(grey.rgb, 77);
    for (const auto& [width, height] : {std::pair{5u, 3u}, {96u, 64u}, {37u, 64u}, {1u, 1u}}) {
        const Pixels resized = resize(grey, width, height);
        EXPECT_EQ(resized.width, width);
        EXPECT_EQ(resized.height, height);
        EXPECT_TRUE(std::ranges::all_of(resized.rgb, [](std::uint8_t v) { return v == 77; }));
    }
}

TEST(Resize, TheSameSizeIsTheSameImage) {
    Pixels pixels = Pixels::of(9, 7);
    for (std::size_t i = 0; i < pixels.rgb.size(); ++i) pixels.rgb[i] = std::uint8_t(i * 37);
    EXPECT_EQ(resize(pixels, 9, 7).rgb, pixels.rgb);
}

}  // namespace
}  // namespace kapitsa

#include "image/decode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "image/exif.h"

namespace kapitsa {
namespace {

using testing::HasSubstr;

std::string file(const std::string& name) {
    std::ifstream in(KAPITSA_SOURCE_DIR "/tests/data/images/" + name, std::ios::binary);
    EXPECT_TRUE(in) << name;
    return {std::istreambuf_iterator<char>(in), {}};
}

/// CRC-32 as zlib has it: a short name for many pixels.
std::uint32_t checksum(const Pixels& pixels) {
    std::uint32_t sum = ~0u;
    for (const std::uint8_t byte : pixels.rgb) {
        sum ^= byte;
        for (int bit = 0; bit < 8; ++bit) sum = sum >> 1 ^ (sum & 1 ? 0xedb88320u : 0);
    }
    return ~sum;
}

struct Known {
    const char* name;
    std::uint32_t width, height, checksum;
};
class Decode : public testing::TestWithParam<Known> {};

TEST_P(Decode, ThePixelsAreThoseThatPillowReads) {
    const Known& known = GetParam();
    const auto pixels = decode_image(as_bytes(file(known.name)));
    ASSERT_TRUE(pixels) << pixels.error().message;
    EXPECT_EQ(pixels->width, known.width);
    EXPECT_EQ(pixels->height, known.height);
    EXPECT_EQ(checksum(*pixels), known.checksum);
}

// Pillow 9.4, ImageOps.exif_transpose(image).convert("RGB"); tests/data/images/README.md.
INSTANTIATE_TEST_SUITE_P(
    Files, Decode,
    testing::Values(Known{"rgb.png", 24, 16, 4023959412}, Known{"rgba.png", 24, 16, 4023959412},
                    Known{"rgb16.png", 24, 16, 4023959412}, Known{"grey.png", 24, 16, 3370304149},
                    Known{"grey_alpha.png", 24, 16, 3370304149}, Known{"grey2.png", 24, 16, 4276641804},
                    Known{"bits1.png", 24, 16, 3421785405}, Known{"palette.png", 24, 16, 2591283760},
                    Known{"palette_transparent.png", 24, 16, 2591283760},
                    Known{"exif6.png", 16, 24, 131157127}, Known{"colour.jpg", 40, 24, 3054245951},
                    Known{"progressive.jpg", 40, 24, 3054245951}, Known{"grey.jpg", 40, 24, 2966113484},
                    Known{"cmyk.jpg", 40, 24, 2458271699}, Known{"exif1.jpg", 16, 8, 70417279},
                    Known{"exif2.jpg", 16, 8, 4153305313}, Known{"exif3.jpg", 16, 8, 2064144653},
                    Known{"exif4.jpg", 16, 8, 3399095626}, Known{"exif5.jpg", 8, 16, 1686217008},
                    Known{"exif6.jpg", 8, 16, 4030245895}, Known{"exif7.jpg", 8, 16, 3210586942},
                    Known{"exif8.jpg", 8, 16, 2610860594}, Known{"lossy.webp", 40, 24, 3639914515},
                    Known{"lossless.webp", 40, 24, 1118462842}, Known{"alpha.webp", 40, 24, 3337436785},
                    Known{"exif6.webp", 24, 40, 1120627062}),
    [](const auto& of) {
        std::string name = of.param.name;
        for (char& c : name)
            if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
        return name;
    });

TEST(DecodeImage, OfGreysOf16BitsTheUpper8Count) {
    const auto pixels = decode_image(as_bytes(file("grey16.png"))),
               eight = decode_image(as_bytes(file("rgb.png")));
    ASSERT_TRUE(pixels && eight);
    for (std::size_t i = 0; i < pixels->rgb.size(); ++i) ASSERT_EQ(pixels->rgb[i], eight->rgb[i / 3 * 3]);
}

std::string refusal(const std::string& bytes, Fault fault) {
    const auto pixels = decode_image(as_bytes(bytes));
    if (pixels) return "decoded";
    EXPECT_EQ(pixels.error().fault, fault) << pixels.error().message;
    return pixels.error().message;
}

TEST(DecodeImage, BrokenFilesAreRefusedByTheirFormat) {
    EXPECT_THAT(refusal(file("cut.png"), Fault::corrupt_file), HasSubstr("the PNG is broken: "));
    EXPECT_THAT(refusal(file("damaged.png"), Fault::corrupt_file), HasSubstr("the PNG is broken: "));
    EXPECT_THAT(refusal(file("cut.jpg"), Fault::corrupt_file), HasSubstr("the JPEG is broken: "));
    EXPECT_THAT(refusal(file("cut.webp"), Fault::corrupt_file), HasSubstr("the WebP is broken: "));
}

TEST(DecodeImage, EveryPrefixOfAFileIsRefused) {
    for (const char* name : {"palette_transparent.png", "grey.jpg", "alpha.webp"}) {
        const std::string whole = file(name);
        // What ends a PNG or a JPEG behind its pixels may be missing.
        for (std::size_t bytes = 0; bytes + 16 < whole.size(); ++bytes)
            EXPECT_FALSE(decode_image(as_bytes(std::string_view(whole).substr(0, bytes)))) << name << bytes;
    }
}

TEST(DecodeImage, AnimationsAreRefused) {
    EXPECT_THAT(refusal(file("animated.png"), Fault::unsupported), HasSubstr("the PNG is an animation"));
    EXPECT_THAT(refusal(file("animated.webp"), Fault::unsupported), HasSubstr("the WebP is an animation"));
}

TEST(DecodeImage, ALargeImageIsRefusedWithBothNumbersBeforeItIsDecoded) {
    EXPECT_EQ(refusal(file("huge.png"), Fault::invalid_input),
              "the image is 40000 x 30000 pixels, and at most 67108864 pixels are decoded: make it smaller");
    EXPECT_EQ(refusal(std::string(image_bytes_most + 1, ' '), Fault::invalid_input),
              "the image has 67108865 bytes, and at most 67108864 are taken: make it smaller");
}

TEST(DecodeImage, OtherFilesAreRefused) {
    EXPECT_THAT(refusal(file("still.gif"), Fault::invalid_input), HasSubstr("neither PNG nor JPEG nor WebP"));
    EXPECT_EQ(refusal("", Fault::invalid_input), "the image is empty");
}

TEST(Orientation, WhatIsBrokenSaysNothing) {
    const std::string good("II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0", 26);
    EXPECT_EQ(orientation_of(as_bytes(good)), 6u);
    const std::string turned("MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x08\0\0", 22);
    EXPECT_EQ(orientation_of(as_bytes(turned)), 8u);
    for (std::size_t bytes = 0; bytes < 20; ++bytes)
        EXPECT_EQ(orientation_of(as_bytes(std::string_view(good).substr(0, bytes))), 1u) << bytes;
    std::string strange = good;
    strange[18] = 9;
    EXPECT_EQ(orientation_of(as_bytes(strange)), 1u);
    strange = good;
    strange[4] = strange[5] = strange[6] = strange[7] = '\xff';  // the directory lies far beyond
    EXPECT_EQ(orientation_of(as_bytes(strange)), 1u);
}

}  // namespace
}  // namespace kapitsa

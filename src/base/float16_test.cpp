#include "base/float16.h"

#include <gtest/gtest.h>

#include <cmath>

namespace kapitsa {
namespace {

TEST(Float16, F16CoversNormalsSubnormalsZerosAndInfinities) {
    EXPECT_EQ(float_from_f16(0x3C00), 1.0f);
    EXPECT_EQ(float_from_f16(0xC000), -2.0f);
    EXPECT_EQ(float_from_f16(0x7BFF), 65504.0f);
    EXPECT_EQ(float_from_f16(0x0001), 0x1p-24f);
    EXPECT_EQ(float_from_f16(0x83FF), -1023 * 0x1p-24f);
    EXPECT_TRUE(std::signbit(float_from_f16(0x8000)));
    EXPECT_EQ(float_from_f16(0xFC00), -INFINITY);
    EXPECT_TRUE(std::isnan(float_from_f16(0x7E00)));
}

TEST(Float16, Bf16RoundsToNearestEvenAndComesBack) {
    EXPECT_EQ(bf16_from_float(1.0f), 0x3F80);
    EXPECT_EQ(bf16_from_float(1.00390625f), 0x3F80);  // half way, down to even
    EXPECT_EQ(bf16_from_float(1.01171875f), 0x3F82);  // half way, up to even
    EXPECT_TRUE(std::isnan(float_from_bf16(bf16_from_float(NAN))));
    for (const float value : {0.0f, -3.5f, 0x1p-126f, 0x1p127f})
        EXPECT_EQ(float_from_bf16(bf16_from_float(value)), value);
}

}  // namespace
}  // namespace kapitsa

// The instruments themselves: which kernels there are, and that a comparison fails when it should.
#include "kernels/lab.h"

#include <algorithm>
#include <cmath>

#include "kernels/all.h"

namespace kapitsa {
namespace {

KERNEL_TESTS(Entries);

TEST_P(Entries, AreAllThere) {
    Lab lab(GetParam());
    const auto names = entries_in_headers();
    for (const std::string& name : names) EXPECT_TRUE(lab.backend().has(name)) << name;
    EXPECT_FALSE(lab.backend().has("no_such_kernel"));
}

TEST(Entries, AreReadFromTheHeadersWithTheRowsOfTheirMacros) {
    const auto names = entries_in_headers();
    // A new kernel changes this number, and needs a test of its own.
    EXPECT_EQ(names.size(), 102u + 4 * block_form_count);
    for (const char* name : {rope_table_f32.name, delta_chunks_f32.name, zero_f32.name,
                             embed_affine_bf16.name, multiply_affine3_f16.name, gated_rms_norm_f32.name,
                             short_conv_commit_f32.name, multiply_q4_0.name, embed_fp8.name})
        EXPECT_EQ(std::ranges::count(names, name), 1) << name;
}

TEST(Comparisons, FailOnNanOnInfinityAndOnAnotherLength) {
    const std::vector<double> want{1, 2, 4};
    const float nan = std::nanf(""), infinity = HUGE_VALF;
    EXPECT_EQ(largest_error(std::vector<float>{1, 2.5, 4}, want), 0.5);
    EXPECT_EQ(worst_relative(std::vector<float>{1, 2.5, 4}, want), 0.125);
    EXPECT_FALSE(largest_error(std::vector<float>{nan, 2, 4}, want) < 1e30);
    EXPECT_FALSE(worst_relative(std::vector<float>{1, 2, nan}, want) < 1e30);
    EXPECT_FALSE(worst_relative(std::vector<float>{1, infinity, 4}, want) < 1e30);
    EXPECT_FALSE(largest_error(std::vector<float>{1, 2}, want) < 1e30);
    EXPECT_FALSE(worst_relative(std::vector<float>{0, 1e-9f}, std::vector<double>{0, 0}) < 1e30);
    EXPECT_NE(bits(std::vector<float>{0.0f}), bits(std::vector<float>{-0.0f}));
}

TEST(Comparisons, StoredNumbersAreTheNearestBelowInSize) {
    for (const float value : {0.0f, 1.0f, -1.5f, 0.1f, 1e-6f, -3e-8f, 60000.0f}) {
        const double cut = number(stored<half>(value));
        EXPECT_LE(std::fabs(cut), std::fabs(value));
        EXPECT_LE(std::fabs(value - cut), std::fmax(std::fabs(value) * 0x1p-10, 0x1p-24)) << value;
        EXPECT_LE(std::fabs(value - number(stored<bfloat>(value))), std::fabs(value) * 0x1p-8) << value;
    }
}

}  // namespace
}  // namespace kapitsa

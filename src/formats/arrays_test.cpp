#include "formats/arrays.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "support/checkpoint_writer.h"

namespace kapitsa {
namespace {

class Arrays : public testing::Test {
protected:
    template <typename T>
    void add(const std::string& name, ElementType type, const std::vector<T>& values) {
        const Bytes bytes = std::as_bytes(std::span(values));
        writer_.add(name, type, {values.size()}, {bytes.begin(), bytes.end()});
    }
    ArrayFile written() {
        writer_.write(temporary_.path() + "/written", Json::object());
        return std::move(*ArrayFile::open(temporary_.path() + "/written/model.safetensors"));
    }

private:
    CheckpointWriter writer_;
    TemporaryFolder temporary_;
};

TEST_F(Arrays, OfEveryWidthAreReadExactly) {
    add<double>("f64", ElementType::f64, {1e-300, -2});
    add<float>("f32", ElementType::f32, {1.5f});
    add<std::uint16_t>("f16", ElementType::f16, {0x3c01, 0x0001});
    add<std::uint16_t>("bf16", ElementType::bf16, {0x3f81});
    add<std::uint8_t>("u8", ElementType::u8, {255});
    add<std::int64_t>("i64", ElementType::i64, {-5});
    const ArrayFile file = written();
    EXPECT_EQ(file.doubles("f64")->values, (std::vector<double>{1e-300, -2}));
    EXPECT_EQ(file.floats("f64")->values, (std::vector<float>{0, -2}));
    EXPECT_EQ(file.doubles("f16")->values, (std::vector<double>{1.0 + 1.0 / 1024, 0x1p-24}));
    EXPECT_EQ(file.floats("bf16")->values, (std::vector<float>{1.0f + 1.0f / 128}));
    EXPECT_EQ(file.ints("u8")->values, (std::vector<std::int64_t>{255}));
    EXPECT_EQ(file.floats("i64")->values, (std::vector<float>{-5}));
    EXPECT_EQ(file.names().front(), "bf16");
}

TEST_F(Arrays, WhatTheyAreNotIsSaidWithFileAndName) {
    add<float>("reals", ElementType::f32, {1});
    add<std::uint64_t>("large", ElementType::u64, {1ull << 63});
    const ArrayFile file = written();
    const auto ints = file.ints("reals"), large = file.ints("large");
    const auto none = file.floats("none");
    ASSERT_TRUE(!ints && !large && !none && !file.doubles("large"));
    EXPECT_NE(ints.error().message.find("reals is F32"), std::string::npos);
    EXPECT_NE(large.error().message.find("beyond int64"), std::string::npos);
    EXPECT_NE(none.error().message.find("no array none"), std::string::npos);
    EXPECT_NE(none.error().message.find("model.safetensors"), std::string::npos);
}

}  // namespace
}  // namespace kapitsa

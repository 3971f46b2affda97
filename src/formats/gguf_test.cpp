#include "formats/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "formats/mapped_file.h"
#include "support/allocations.h"

namespace kapitsa {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string data_folder = std::string(KAPITSA_SOURCE_DIR) + "/tests/data/";

struct Malformed {
    const char* file;
    const char* reason;
    Fault fault = Fault::corrupt_file;
};

void PrintTo(const Malformed& malformed, std::ostream* out) { *out << malformed.file; }

class MalformedGguf : public testing::TestWithParam<Malformed> {};

TEST_P(MalformedGguf, IsRefusedByNameAndCostsNextToNoMemory) {
    const auto file = MappedFile::open(data_folder + "malformed/" + GetParam().file + ".gguf");
    if (!file) {  // an empty file cannot be mapped, and says so
        EXPECT_THAT(file.error().message, HasSubstr(GetParam().reason));
        EXPECT_EQ(file.error().fault, GetParam().fault);
        return;
    }
    const std::size_t before = allocated_bytes();
    const auto gguf = read_gguf(file->bytes());
    EXPECT_LT(allocated_bytes() - before, 65536u);
    ASSERT_FALSE(gguf);
    EXPECT_THAT(gguf.error().message, HasSubstr(GetParam().reason));
    EXPECT_EQ(gguf.error().fault, GetParam().fault);
}

INSTANTIATE_TEST_SUITE_P(
    All, MalformedGguf,
    testing::Values(Malformed{"align_0", "metadata \"general.alignment\" is 0; it must be a power of two"},
                    Malformed{"align_3", "metadata \"general.alignment\" is 3; it must be a power of two"},
                    Malformed{"array_len_huge", "elements is longer than the file"},
                    Malformed{"array_of_arrays", "a list of lists"},
                    Malformed{"bad_kv_type", "is none of the format's"},
                    Malformed{"big_endian_version", "big-endian", Fault::unsupported},
                    Malformed{"bool_2", "a bool of 2; it must be 0 or 1"},
                    Malformed{"cut_in_kv", "its count of tensors, 26, is more than the file can hold"},
                    Malformed{"cut_in_tensor_data", "run past the end of the file"},
                    Malformed{"dim_zero_ok_or_reject", "its dimension"},
                    Malformed{"dims_5", "it has 5 dimensions"},
                    Malformed{"dims_overflow", "its dimensions overflow 64 bits"},
                    Malformed{"dup_key", "stands twice"}, Malformed{"dup_tensor", "stands twice"},
                    Malformed{"empty", "empty.gguf is empty", Fault::invalid_input},
                    Malformed{"header_only", "the head of the file: the file ends inside it"},
                    Malformed{"magic", "it does not begin with \"GGUF\""},
                    Malformed{"n_kv_huge", "its count of metadata keys"},
                    Malformed{"n_tensors_huge", "its count of tensors"},
                    Malformed{"name_too_long", "at most 63 are allowed"},
                    Malformed{"offset_misaligned", "is no multiple of the alignment 32"},
                    Malformed{"offset_overlap", "lies inside the tensor before it"},
                    Malformed{"offset_past_end", "run past the end of the file"},
                    Malformed{"removed_type_4", "its type 4 was removed from the format"},
                    Malformed{"row_not_multiple_of_block", "are no whole number of the"},
                    Malformed{"string_len_huge", "the file ends inside it"},
                    Malformed{"unknown_type", "is none of the format's"},
                    Malformed{"version_1", "its version is 1", Fault::unsupported},
                    Malformed{"version_99", "its version is 99", Fault::unsupported}),
    [](const auto& test) { return std::string(test.param.file); });

class TinyGguf : public testing::Test {
protected:
    const MappedFile file_ = std::move(*MappedFile::open(data_folder + "gguf/tiny.gguf"));
    const Result<Gguf> gguf_ = read_gguf(file_.bytes());
};

TEST_F(TinyGguf, HasEveryTypeOfMetadataAndOfTensors) {
    ASSERT_TRUE(gguf_) << gguf_.error().message;
    EXPECT_EQ(gguf_->metadata.size(), 16u);
    EXPECT_EQ(gguf_->tensors.size(), 26u);
    std::set<GgufType> types;
    for (const GgufValue& value : gguf_->metadata) types.insert(value.type);
    EXPECT_EQ(types.size(), 12u);  // all but the list, whose elements are counted
    EXPECT_FALSE(gguf_->find("no such key"));
    EXPECT_EQ(gguf_->text("no such key"), "");
}

TEST_F(TinyGguf, TensorsAreInsideTheFileAndAsLargeAsTheirShape) {
    ASSERT_TRUE(gguf_) << gguf_.error().message;
    for (const TensorEntry& tensor : gguf_->tensors) {
        const ElementForm form = element_form(tensor.type);
        std::uint64_t elements = 1;
        for (const std::uint64_t extent : tensor.shape) elements *= extent;
        EXPECT_EQ(tensor.bytes.size(), elements / form.values * form.bytes) << tensor.name;
        EXPECT_GE(tensor.bytes.data(), file_.bytes().data());
        EXPECT_LE(tensor.bytes.data() + tensor.bytes.size(), file_.bytes().data() + file_.bytes().size());
        EXPECT_EQ((tensor.bytes.data() - file_.bytes().data()) % 32, 0);
    }
}

TEST_F(TinyGguf, DimensionsAreTurnedOutermostFirst) {
    ASSERT_TRUE(gguf_) << gguf_.error().message;
    const auto found = std::ranges::find(gguf_->tensors, "w.f32", &TensorEntry::name);
    ASSERT_NE(found, gguf_->tensors.end());
    EXPECT_THAT(found->shape, ElementsAre(3, 32));
}

/// Bytes of a file under construction.
struct File {
    std::string bytes;
    template <typename T>
    File& add(T value) {
        bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
        return *this;
    }
    File& text(std::string_view text) {
        add<std::uint64_t>(text.size());
        bytes.append(text);
        return *this;
    }
    File& head(std::uint64_t tensors, std::uint64_t keys) {
        bytes = "GGUF";
        return add<std::uint32_t>(3).add(tensors).add(keys);
    }
    Result<Gguf> read() const { return read_gguf(as_bytes(bytes)); }
};

TEST(Gguf, SettingsAreTheMetadataAsJson) {
    File file;
    file.head(0, 4).text("a.number").add<std::uint32_t>(5).add<std::int32_t>(-3);
    file.text("a.flags").add<std::uint32_t>(9).add<std::uint32_t>(7).add<std::uint64_t>(2);
    file.bytes += std::string("\1\0", 2);
    file.text("a.text").add<std::uint32_t>(8).text("x\xFFy");
    file.text("a.texts").add<std::uint32_t>(9).add<std::uint32_t>(8).add<std::uint64_t>(2).text("").text("b");
    const auto gguf = file.read();
    ASSERT_TRUE(gguf) << gguf.error().message;
    const Json settings = settings_of(*gguf);
    EXPECT_EQ(settings, Json::parse(R"({"a.number": -3, "a.flags": [true, false], "a.text": "x\uFFFDy",
                                        "a.texts": ["", "b"]})"));
    EXPECT_EQ(gguf->text("a.text"), "x\xFFy");
    EXPECT_EQ(gguf->text("a.texts"), "");
}

TEST(Gguf, AVocabularyIsNoSettingButCanBeRead) {
    File file;
    file.head(0, 1).text("tokens").add<std::uint32_t>(9).add<std::uint32_t>(5).add<std::uint64_t>(5000);
    for (std::int32_t i = 0; i < 5000; ++i) file.add(i);
    const auto gguf = file.read();
    ASSERT_TRUE(gguf) << gguf.error().message;
    EXPECT_EQ(settings_of(*gguf), Json::object());
    const auto numbers = whole_numbers_of(gguf->metadata[0]);
    ASSERT_TRUE(numbers);
    EXPECT_EQ(numbers->size(), 5000u);
    EXPECT_EQ(numbers->back(), 4999);
}

TEST(Gguf, AListOfTextsIsNoListOfNumbers) {
    File file;
    file.head(0, 1).text("t").add<std::uint32_t>(9).add<std::uint32_t>(8).add<std::uint64_t>(1).text("1");
    const auto numbers = whole_numbers_of(file.read()->metadata[0]);
    ASSERT_FALSE(numbers);
    EXPECT_THAT(numbers.error().message, HasSubstr("metadata \"t\" is not a list of whole numbers"));
}

TEST(Gguf, EveryCutOfAFileIsRefused) {
    File file;
    file.head(1, 1).text("k").add<std::uint32_t>(8).text("v");
    file.text("w").add<std::uint32_t>(1).add<std::uint64_t>(8).add<std::uint32_t>(0).add<std::uint64_t>(0);
    file.bytes.resize((file.bytes.size() + 31) / 32 * 32 + 32, '\0');
    ASSERT_TRUE(file.read()) << file.read().error().message;
    for (std::size_t bytes = 0; bytes < file.bytes.size(); ++bytes)
        EXPECT_FALSE(read_gguf(as_bytes(std::string_view(file.bytes).substr(0, bytes)))) << bytes;
}

TEST(Gguf, OneBitTypesAreRefusedByName) {
    File file;
    file.head(1, 0).text("w").add<std::uint32_t>(1).add<std::uint64_t>(256).add<std::uint32_t>(19);
    file.add<std::uint64_t>(0).bytes.resize(4096, '\0');
    const auto gguf = file.read();
    ASSERT_FALSE(gguf);
    EXPECT_EQ(gguf.error().fault, Fault::unsupported);
    EXPECT_THAT(gguf.error().message, HasSubstr("tensor \"w\": its type is IQ1_S"));
}

}  // namespace
}  // namespace kapitsa

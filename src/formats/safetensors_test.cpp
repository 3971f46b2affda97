#include "formats/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>

#include "formats/mapped_file.h"
#include "support/allocations.h"

namespace kapitsa {
namespace {

const std::string data_folder = std::string(KAPITSA_SOURCE_DIR) + "/tests/data/";

/// A file of this header, padded or cut to `data_bytes` of data.
std::string file_of(std::string_view header, std::size_t data_bytes) {
    std::string file(8, '\0');
    const std::uint64_t length = header.size();
    std::memcpy(file.data(), &length, sizeof length);
    return file.append(header).append(data_bytes, '\0');
}

std::string refusal(std::string_view file) {
    const auto tensors = read_safetensors(as_bytes(file));
    return tensors ? "accepted" : tensors.error().message;
}

struct Malformed {
    const char* file;
    const char* reason;
    Fault fault = Fault::corrupt_file;
};

void PrintTo(const Malformed& malformed, std::ostream* out) { *out << malformed.file; }

class MalformedSafetensors : public testing::TestWithParam<Malformed> {};

TEST_P(MalformedSafetensors, IsRefusedByNameAndCostsNextToNoMemory) {
    const auto file = MappedFile::open(data_folder + "malformed/" + GetParam().file + ".safetensors");
    if (!file) {  // an empty file cannot be mapped, and says so
        EXPECT_NE(file.error().message.find(GetParam().reason), std::string::npos) << file.error().message;
        EXPECT_EQ(file.error().fault, GetParam().fault);
        return;
    }
    const std::size_t before = allocated_bytes();
    const auto tensors = read_safetensors(file->bytes());
    EXPECT_LT(allocated_bytes() - before, 16384u);
    ASSERT_FALSE(tensors);
    EXPECT_NE(tensors.error().message.find(GetParam().reason), std::string::npos) << tensors.error().message;
    EXPECT_EQ(tensors.error().fault, GetParam().fault);
}

INSTANTIATE_TEST_SUITE_P(
    All, MalformedSafetensors,
    testing::Values(
        Malformed{"bad_utf8", "the header is not UTF-8 at its byte 2"},
        Malformed{"begin_after_end", "tensor \"a\": data_offsets 8 to 0 end before they begin"},
        Malformed{"dup_key", "the header has the key \"a\" twice"},
        Malformed{"empty", "empty.safetensors is empty", Fault::invalid_input},
        Malformed{"float_shape", "tensor \"a\": shape holds 1.5, not a whole number"},
        Malformed{"hole", "tensor \"b\": data_offsets begin at 16, behind a hole"},
        Malformed{"len_huge", "the header's length is 1152921504606846976; at most 100000000"},
        Malformed{"len_past_eof", "bytes follow it"},
        Malformed{"meta_not_string", "__metadata__: \"a\" is a number where a string must stand"},
        Malformed{"negative", "tensor \"a\": data_offsets holds -8, a negative number"},
        Malformed{"not_json", "the header is not valid JSON at its byte 2"},
        Malformed{"not_object", "the header is not a JSON object"},
        Malformed{"overlap", "tensor \"b\": data_offsets begin at 4, inside the tensor before it"},
        Malformed{"past_end", "tensor \"a\": data_offsets 0 to 8 lie outside the file, which has 4 bytes"},
        Malformed{"shape_overflow", "tensor \"a\": shape overflows 64 bits"},
        Malformed{"short_len", "the file has 3 bytes"},
        Malformed{"size_mismatch", "tensor \"a\": shape and dtype need 8 bytes, data_offsets hold 4"},
        Malformed{"trailing", "8 bytes follow the last tensor"},
        Malformed{"unknown_dtype", "tensor \"a\": dtype is \"Q99\", a type we do not know",
                  Fault::unsupported}),
    [](const auto& test) { return std::string(test.param.file); });

TEST(ReadSafetensors, GivesNamesTypesShapesAndBytesByTheirPlaceInTheFile) {
    std::string file =
        file_of(R"({"__metadata__":{"format":"pt"},)"
                R"("late":{"dtype":"BF16","shape":[2,1],"data_offsets":[4,8]},)"
                R"("none":{"shape":[0,18446744073709551615,3],"dtype":"F64","data_offsets":[4,4]},)"
                R"("scalar":{"data_offsets":[0,4],"dtype":"F32","shape":[]}}   )",
                8);
    file.back() = '\x7F';
    const auto tensors = read_safetensors(as_bytes(file));
    ASSERT_TRUE(tensors) << tensors.error().message;
    ASSERT_EQ(tensors->size(), 3u);
    EXPECT_EQ((*tensors)[0].name, "scalar");
    EXPECT_TRUE((*tensors)[0].shape.empty());
    EXPECT_EQ((*tensors)[0].bytes.size(), 4u);
    EXPECT_EQ((*tensors)[1].name, "none");
    EXPECT_EQ((*tensors)[1].bytes.size(), 0u);
    EXPECT_EQ((*tensors)[2].type, ElementType::bf16);
    EXPECT_EQ((*tensors)[2].shape, (std::vector<std::uint64_t>{2, 1}));
    EXPECT_EQ((*tensors)[2].bytes.data() + 3, as_bytes(file).data() + file.size() - 1);
    EXPECT_EQ((*tensors)[2].bytes[3], std::byte{0x7F});
}

TEST(ReadSafetensors, KnowsEveryTypeOfTheFormatByName) {
    const std::pair<const char*, std::size_t> types[] = {
        {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"F8_E8M0", 1},
        {"U16", 2},  {"I16", 2}, {"F16", 2}, {"BF16", 2},    {"U32", 4},     {"I32", 4},
        {"F32", 4},  {"U64", 8}, {"I64", 8}, {"F64", 8},
    };
    for (const auto& [name, bytes] : types) {
        const auto tensors = read_safetensors(
            as_bytes(file_of(R"({"a":{"dtype":")" + std::string(name) +
                                 R"(","shape":[3],"data_offsets":[0,)" + std::to_string(3 * bytes) + "]}}",
                             3 * bytes)));
        ASSERT_TRUE(tensors) << name << ": " << tensors.error().message;
        EXPECT_STREQ(element_name(tensors->front().type), name);
        EXPECT_EQ(element_bytes(tensors->front().type), bytes);
    }
}

TEST(ReadSafetensors, RefusesWhatTheHeaderMayNotSayAndNamesIt) {
    const auto claim = [](std::string_view fields) {
        return refusal(file_of(R"({"w":{)" + std::string(fields) + "}}", 4));
    };
    EXPECT_EQ(claim(R"("shape":[1],"data_offsets":[0,4])"), "tensor \"w\" has no dtype");
    EXPECT_EQ(claim(R"("dtype":"F32","data_offsets":[0,4])"), "tensor \"w\" has no shape");
    EXPECT_EQ(claim(R"("dtype":"F32","shape":[1])"), "tensor \"w\" has no data_offsets");
    EXPECT_EQ(claim(R"("dtype":"F32","shape":[1],"data_offsets":[4])"),
              "tensor \"w\": data_offsets are not two numbers");
    EXPECT_EQ(claim(R"("dtype":"F32","shape":[1],"data_offsets":[0,4,8])"),
              "tensor \"w\": data_offsets has more than two numbers");
    EXPECT_EQ(claim(R"("dtype":"F32","shape":[1],"shape":[1],"data_offsets":[0,4])"),
              "tensor \"w\" has the key \"shape\" twice");
    EXPECT_EQ(claim(R"("dtype":"F32","shape":[1],"extra":1)"), "tensor \"w\" has an unknown field \"extra\"");
    EXPECT_EQ(claim(R"("dtype":4)"), "tensor \"w\": dtype is a number where a string must stand");
    EXPECT_EQ(claim(R"("shape":[[1]])"),
              "tensor \"w\": shape holds a list where a list of whole numbers must stand");
    EXPECT_EQ(claim(R"("shape":[1,1,1,1,1,1,1,1,1])"), "tensor \"w\": shape has more than 8 dimensions");
    EXPECT_EQ(refusal(file_of(R"({"w":1})", 0)), "tensor \"w\" is a number where an object must stand");
    EXPECT_EQ(refusal(file_of(R"({"__metadata__":{"a":"","a":""}})", 0)),
              "__metadata__ has the key \"a\" twice");
    EXPECT_EQ(refusal(file_of(std::string_view("{}\0{}", 5), 0)),
              "the header is not valid JSON at its byte 2");
    EXPECT_EQ(refusal(file_of("{} x", 0)), "the header is not valid JSON at its byte 4");
    EXPECT_EQ(refusal(file_of("", 0)), "the header is not a JSON object");
    EXPECT_NE(refusal(file_of("{\"w\":" + std::string(100'000, '['), 0)).find("must stand"),
              std::string::npos);
}

TEST(ReadSafetensors, NamesInMessagesAreCutAndHoldNoControlCharacters) {
    const std::string why = refusal(file_of("{\"" + std::string(5000, 'x') + "\":1}", 0));
    EXPECT_LT(why.size(), 200u);
    EXPECT_EQ(refusal(file_of(R"({"\u001b[2J":1})", 0)),
              "tensor \"?[2J\" is a number where an object must stand");
}

TEST(ReadSafetensors, AHeaderOfFortyThousandTensorsCostsAFewTimesItsLength) {
    std::string header = "{";
    for (int i = 0; i < 40'000; ++i)
        header += (i ? ",\"" : "\"") + std::string("model.layers.0.mlp.experts.") + std::to_string(i) +
                  R"(.up_proj.weight":{"dtype":"U8","shape":[1],"data_offsets":[)" + std::to_string(i) + "," +
                  std::to_string(i + 1) + "]}";
    header += "}";
    const std::string file = file_of(header, 40'000);
    const std::size_t before = allocated_bytes();
    const auto tensors = read_safetensors(as_bytes(file));
    ASSERT_TRUE(tensors) << tensors.error().message;
    EXPECT_EQ(tensors->size(), 40'000u);
    EXPECT_LT(allocated_bytes() - before, 20 * header.size());
}

}  // namespace
}  // namespace kapitsa

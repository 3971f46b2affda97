// The values of GGUF metadata in our own types. read_gguf has checked their lengths.
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/utf8.h"
#include "formats/gguf.h"
#include "formats/in_quotes.h"

namespace kapitsa {
namespace {

constexpr std::uint64_t setting_elements_max = 4096, setting_bytes_max = 4u << 20;

template <typename T>
T read(Bytes bytes, std::uint64_t number) {
    T value;
    CHECK((number + 1) * sizeof value <= bytes.size());
    std::memcpy(&value, bytes.data() + number * sizeof value, sizeof value);
    return value;
}

/// Element `number` of a value that is no text.
Json scalar(GgufType type, Bytes bytes, std::uint64_t number) {
    switch (type) {
        case GgufType::u8: return read<std::uint8_t>(bytes, number);
        case GgufType::i8: return read<std::int8_t>(bytes, number);
        case GgufType::u16: return read<std::uint16_t>(bytes, number);
        case GgufType::i16: return read<std::int16_t>(bytes, number);
        case GgufType::u32: return read<std::uint32_t>(bytes, number);
        case GgufType::i32: return read<std::int32_t>(bytes, number);
        case GgufType::f32: return read<float>(bytes, number);
        case GgufType::boolean: return read<std::uint8_t>(bytes, number) != 0;
        case GgufType::u64: return read<std::uint64_t>(bytes, number);
        case GgufType::i64: return read<std::int64_t>(bytes, number);
        case GgufType::f64: return read<double>(bytes, number);
        case GgufType::text:
        case GgufType::array: break;
    }
    CHECK(type != GgufType::text && type != GgufType::array);
    return nullptr;
}

Json setting_of(const GgufValue& value) {
    const auto text = [](std::string_view bytes) { return Json(repair_utf8(bytes)); };
    if (!value.is_list)
        return value.type == GgufType::text ? text(as_text(value.bytes)) : scalar(value.type, value.bytes, 0);
    Json list = Json::array();
    if (value.type == GgufType::text)
        for (const std::string_view element : texts_of(value)) list.push_back(text(element));
    else
        for (std::uint64_t i = 0; i < value.count; ++i) list.push_back(scalar(value.type, value.bytes, i));
    return list;
}

}  // namespace

std::vector<std::string_view> texts_of(const GgufValue& value) {
    CHECK(value.is_list && value.type == GgufType::text);
    std::vector<std::string_view> texts;
    texts.reserve(value.count);
    Bytes left = value.bytes;
    for (std::uint64_t i = 0; i < value.count; ++i) {
        const auto bytes = read<std::uint64_t>(left, 0);
        texts.push_back(as_text(left.subspan(8, bytes)));
        left = left.subspan(8 + bytes);
    }
    return texts;
}

Result<std::vector<std::int64_t>> whole_numbers_of(const GgufValue& value) {
    const std::string field = "metadata " + in_quotes(value.key);
    std::vector<std::int64_t> numbers;
    if (!value.is_list || value.type == GgufType::text)
        return fail(Fault::corrupt_file, field + " is not a list of whole numbers");
    numbers.reserve(value.count);
    for (std::uint64_t i = 0; i < value.count; ++i) {
        const Json number = scalar(value.type, value.bytes, i);
        const bool fits = number.is_number_unsigned() ? number.get<std::uint64_t>() <= INT64_MAX
                                                      : number.is_number_integer();
        if (!fits) return fail(Fault::corrupt_file, field + " is not a list of whole numbers");
        numbers.push_back(number.get<std::int64_t>());
    }
    return numbers;
}

Json settings_of(const Gguf& gguf) {
    Json settings = Json::object();
    std::uint64_t bytes = 0;
    for (const GgufValue& value : gguf.metadata) {
        if (value.count > setting_elements_max || value.bytes.size() > setting_bytes_max - bytes) continue;
        bytes += value.bytes.size();
        // Behind the list of members: keys occur once, and ordered_json would look through all of them.
        settings.get_ref<Json::object_t&>().emplace_back(std::string(value.key), setting_of(value));
    }
    return settings;
}

}  // namespace kapitsa

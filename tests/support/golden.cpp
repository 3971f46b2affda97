#include "support/golden.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "formats/regular_file.h"
#include "formats/safetensors.h"

namespace kapitsa {
namespace {

[[noreturn]] void give_up(const std::string& why) {
    std::fprintf(stderr, "a golden is not what the test expects: %s\n", why.c_str());
    std::abort();
}

template <typename T>
T must(Result<T> result) {
    if (!result) give_up(result.error().message);
    return std::move(*result);
}

std::string full_path(const std::string& path) {
    if (path.starts_with('/')) return path;
    return std::string(KAPITSA_SOURCE_DIR) + "/tests/data/goldens/" + path;
}

double from_half(std::uint16_t bits) {
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const double sign = bits & 0x8000 ? -1 : 1;
    if (exponent == 31) return fraction ? std::nan("") : sign * HUGE_VAL;
    if (exponent == 0) return sign * std::ldexp(fraction, -24);
    return sign * std::ldexp(1024 + fraction, exponent - 25);
}

double from_bfloat(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t(bits) << 16); }

/// Reads each element as a Stored (its bytes may lie anywhere) and converts it.
template <typename Stored, typename T, typename Convert>
void convert(const TensorEntry& tensor, std::vector<T>& values, Convert to) {
    for (std::size_t at = 0; at < tensor.bytes.size(); at += sizeof(Stored)) {
        Stored stored;
        std::memcpy(&stored, tensor.bytes.data() + at, sizeof stored);
        values.push_back(static_cast<T>(to(stored)));
    }
}

/// Whether the type was an integer type, and so read.
template <typename T>
bool convert_integers(const TensorEntry& tensor, std::vector<T>& values) {
    const auto same = [](auto stored) { return stored; };
    switch (tensor.type) {
        case ElementType::boolean:
        case ElementType::u8: convert<std::uint8_t>(tensor, values, same); return true;
        case ElementType::i8: convert<std::int8_t>(tensor, values, same); return true;
        case ElementType::u16: convert<std::uint16_t>(tensor, values, same); return true;
        case ElementType::i16: convert<std::int16_t>(tensor, values, same); return true;
        case ElementType::u32: convert<std::uint32_t>(tensor, values, same); return true;
        case ElementType::i32: convert<std::int32_t>(tensor, values, same); return true;
        case ElementType::i64: convert<std::int64_t>(tensor, values, same); return true;
        case ElementType::u64:
            convert<std::uint64_t>(tensor, values, [&](std::uint64_t stored) {
                if (stored > INT64_MAX) give_up(tensor.name + " holds a number beyond int64");
                return stored;
            });
            return true;
        default: return false;
    }
}

template <typename T>
bool convert_reals(const TensorEntry& tensor, std::vector<T>& values) {
    const auto same = [](auto stored) { return stored; };
    switch (tensor.type) {
        case ElementType::f16: convert<std::uint16_t>(tensor, values, from_half); return true;
        case ElementType::bf16: convert<std::uint16_t>(tensor, values, from_bfloat); return true;
        case ElementType::f32: convert<float>(tensor, values, same); return true;
        case ElementType::f64: convert<double>(tensor, values, same); return true;
        default: return false;
    }
}

}  // namespace

Golden::Golden(const std::string& path) : path_(full_path(path)), file_(must(MappedFile::open(path_))) {
    for (TensorEntry& tensor : must(read_safetensors(file_.bytes()))) {
        std::string name = tensor.name;
        tensors_.emplace(std::move(name), std::move(tensor));
    }
}

std::vector<std::string> Golden::names() const {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : tensors_) names.push_back(name);
    std::ranges::sort(names);
    return names;
}

const TensorEntry& Golden::entry(std::string_view name) const {
    const auto found = tensors_.find(std::string(name));
    if (found == tensors_.end()) give_up(path_ + " has no array " + std::string(name));
    return found->second;
}

Array<float> Golden::floats(std::string_view name) const {
    const TensorEntry& tensor = entry(name);
    Array<float> array{{}, tensor.shape};
    if (!convert_reals(tensor, array.values) && !convert_integers(tensor, array.values))
        give_up(path_ + ": " + tensor.name + " is " + element_name(tensor.type) + ", not read as floats");
    return array;
}

Array<double> Golden::doubles(std::string_view name) const {
    const TensorEntry& tensor = entry(name);
    Array<double> array{{}, tensor.shape};
    if (!convert_reals(tensor, array.values))
        give_up(path_ + ": " + tensor.name + " is " + element_name(tensor.type) + ", not read as doubles");
    return array;
}

Array<std::int64_t> Golden::ints(std::string_view name) const {
    const TensorEntry& tensor = entry(name);
    Array<std::int64_t> array{{}, tensor.shape};
    if (!convert_integers(tensor, array.values))
        give_up(path_ + ": " + tensor.name + " is " + element_name(tensor.type) + ", not integers");
    return array;
}

Json read_golden_json(const std::string& path) {
    constexpr JsonLimits limits = {.bytes = 64u << 20, .depth = 64, .members = 1u << 16};
    return must(parse_json(must(read_text_file(full_path(path), limits.bytes)), limits));
}

std::optional<std::string> tiny_bf16_folder() {
    const char* folder = std::getenv("KAPITSA_TINY_BF16");
    if (!folder || !*folder) return std::nullopt;
    return folder;
}

}  // namespace kapitsa

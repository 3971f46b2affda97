#include "formats/arrays.h"

#include <algorithm>
#include <cstring>

#include "base/float16.h"
#include "formats/safetensors.h"

namespace kapitsa {
namespace {

/// Reads each element as a Stored (its bytes may lie anywhere) and converts it.
template <typename Stored, typename T, typename Convert>
bool convert(const TensorEntry& tensor, std::vector<T>& values, Convert to) {
    values.reserve(tensor.bytes.size() / sizeof(Stored));
    for (std::size_t at = 0; at < tensor.bytes.size(); at += sizeof(Stored)) {
        Stored stored;
        std::memcpy(&stored, tensor.bytes.data() + at, sizeof stored);
        values.push_back(static_cast<T>(to(stored)));
    }
    return true;
}

constexpr auto same = [](auto stored) { return stored; };

/// Whether the type was an integer type, and so read.
template <typename T>
bool convert_integers(const TensorEntry& tensor, std::vector<T>& values) {
    switch (tensor.type) {
        case ElementType::boolean:
        case ElementType::u8: return convert<std::uint8_t>(tensor, values, same);
        case ElementType::i8: return convert<std::int8_t>(tensor, values, same);
        case ElementType::u16: return convert<std::uint16_t>(tensor, values, same);
        case ElementType::i16: return convert<std::int16_t>(tensor, values, same);
        case ElementType::u32: return convert<std::uint32_t>(tensor, values, same);
        case ElementType::i32: return convert<std::int32_t>(tensor, values, same);
        case ElementType::i64:
        case ElementType::u64: return convert<std::int64_t>(tensor, values, same);
        default: return false;
    }
}

template <typename T>
bool convert_reals(const TensorEntry& tensor, std::vector<T>& values) {
    switch (tensor.type) {
        case ElementType::f16: return convert<std::uint16_t>(tensor, values, float_from_f16);
        case ElementType::bf16: return convert<std::uint16_t>(tensor, values, float_from_bf16);
        case ElementType::f32: return convert<float>(tensor, values, same);
        case ElementType::f64: return convert<double>(tensor, values, same);
        default: return false;
    }
}

}  // namespace

Result<ArrayFile> ArrayFile::open(const std::string& path) {
    ArrayFile arrays(path, TRY(MappedFile::open(path)));
    auto tensors = read_safetensors(arrays.file_.bytes());
    if (!tensors) return fail(std::move(tensors.error()).because(path));
    for (TensorEntry& tensor : *tensors) {
        std::string name = tensor.name;
        arrays.tensors_.emplace(std::move(name), std::move(tensor));
    }
    return arrays;
}

std::vector<std::string> ArrayFile::names() const {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : tensors_) names.push_back(name);
    std::ranges::sort(names);
    return names;
}

Result<const TensorEntry*> ArrayFile::entry(std::string_view name) const {
    const auto found = tensors_.find(std::string(name));
    if (found == tensors_.end())
        return fail(Fault::corrupt_file, path_ + " has no array " + std::string(name));
    return &found->second;
}

Result<Array<float>> ArrayFile::floats(std::string_view name) const {
    const TensorEntry& tensor = *TRY(entry(name));
    Array<float> array{{}, tensor.shape};
    if (convert_reals(tensor, array.values) || convert_integers(tensor, array.values)) return array;
    return fail(Fault::corrupt_file,
                path_ + ": " + tensor.name + " is " + element_name(tensor.type) + ", not read as floats");
}

Result<Array<double>> ArrayFile::doubles(std::string_view name) const {
    const TensorEntry& tensor = *TRY(entry(name));
    Array<double> array{{}, tensor.shape};
    if (convert_reals(tensor, array.values)) return array;
    return fail(Fault::corrupt_file,
                path_ + ": " + tensor.name + " is " + element_name(tensor.type) + ", not read as doubles");
}

Result<Array<std::int64_t>> ArrayFile::ints(std::string_view name) const {
    const TensorEntry& tensor = *TRY(entry(name));
    Array<std::int64_t> array{{}, tensor.shape};
    if (!convert_integers(tensor, array.values))
        return fail(Fault::corrupt_file,
                    path_ + ": " + tensor.name + " is " + element_name(tensor.type) + ", not integers");
    if (tensor.type == ElementType::u64 &&
        std::ranges::any_of(array.values, [](std::int64_t value) { return value < 0; }))
        return fail(Fault::corrupt_file, path_ + ": " + tensor.name + " holds a number beyond int64");
    return array;
}

}  // namespace kapitsa

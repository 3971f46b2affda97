#include "support/checkpoint_writer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/float16.h"

namespace kapitsa {
namespace {

/// To nearest, ties to even; the values of these tests are normal in f16.
std::uint16_t f16_from_float(float value) {
    const auto word = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = (word & 0x7fffffff) + 0xfff + (word >> 13 & 1);
    CHECK(value == 0 || (rounded >= 0x38800000 && rounded < 0x47800000));
    return std::uint16_t((word >> 16 & 0x8000) | (value == 0 ? 0 : (rounded - 0x38000000) >> 13));
}

/// Narrows to the stored type; `value` becomes what a reader gets.
void append(std::vector<std::byte>& bytes, ElementType type, float& value) {
    const auto put = [&](auto bits) {
        const auto* from = reinterpret_cast<const std::byte*>(&bits);
        bytes.insert(bytes.end(), from, from + sizeof bits);
    };
    if (type == ElementType::f32) return put(value);
    const std::uint16_t bits = type == ElementType::bf16 ? bf16_from_float(value) : f16_from_float(value);
    value = type == ElementType::bf16 ? float_from_bf16(bits) : float_from_f16(bits);
    put(bits);
}

}  // namespace

void CheckpointWriter::add(const std::string& name, ElementType type, std::vector<std::uint64_t> shape,
                           std::vector<std::byte> bytes) {
    entries_.push_back({name, type, std::move(shape), std::move(bytes)});
}

void CheckpointWriter::add_floats(const std::string& name, std::vector<std::uint64_t> shape,
                                  const std::vector<float>& values) {
    const Bytes bytes = std::as_bytes(std::span(values));
    add(name, ElementType::f32, std::move(shape), {bytes.begin(), bytes.end()});
}

std::vector<float> CheckpointWriter::add_affine(const std::string& module, std::uint64_t rows,
                                                std::uint64_t columns, const std::vector<float>& values,
                                                std::uint32_t bits, std::uint32_t group,
                                                ElementType scale_type) {
    return add_affine(module, {rows, columns}, values, bits, group, scale_type);
}

std::vector<float> CheckpointWriter::add_affine(const std::string& module, std::vector<std::uint64_t> shape,
                                                const std::vector<float>& values, std::uint32_t bits,
                                                std::uint32_t group, ElementType scale_type) {
    const std::uint64_t columns = shape.back();
    CHECK(columns % group == 0);
    std::vector<std::byte> codes(values.size() * bits / 8), scales, biases;
    std::vector<float> restored(values.size());
    const float most = float((1u << bits) - 1);
    for (std::size_t first = 0; first < values.size(); first += group) {
        const auto [low, high] = std::minmax_element(values.begin() + std::ptrdiff_t(first),
                                                     values.begin() + std::ptrdiff_t(first + group));
        float scale = std::max((*high - *low) / most, 1e-4f), bias = *low;
        append(scales, scale_type, scale);
        append(biases, scale_type, bias);
        for (std::size_t i = first; i < first + group; ++i) {
            const float code = std::clamp(std::round((values[i] - bias) / scale), 0.0f, most);
            restored[i] = std::fma(code, scale, bias);
            for (std::uint32_t bit = 0; bit < bits;
                 ++bit) {  // a row is a whole number of bytes: one stream for all
                const std::size_t at = i * bits + bit;
                codes[at / 8] |= std::byte(((std::uint32_t(code) >> bit) & 1) << (at % 8));
            }
        }
    }
    const auto with_columns = [&](std::uint64_t count) {
        shape.back() = count;
        return shape;
    };
    add(module + ".weight", ElementType::u32, with_columns(columns * bits / 32), std::move(codes));
    add(module + ".scales", scale_type, with_columns(columns / group), std::move(scales));
    add(module + ".biases", scale_type, with_columns(columns / group), std::move(biases));
    return restored;
}

void CheckpointWriter::write(const std::string& folder, const Json& config) const {
    CHECK(std::filesystem::create_directory(folder));
    Json header = Json::object();
    std::uint64_t at = 0;
    for (const Entry& entry : entries_) {
        header[entry.name] = {{"dtype", element_name(entry.type)},
                              {"shape", entry.shape},
                              {"data_offsets", {at, at + entry.bytes.size()}}};
        at += entry.bytes.size();
    }
    const std::string text = header.dump();
    const std::uint64_t length = text.size();
    std::ofstream file(folder + "/model.safetensors", std::ios::binary);
    file.write(reinterpret_cast<const char*>(&length), 8) << text;
    for (const Entry& entry : entries_)
        file.write(reinterpret_cast<const char*>(entry.bytes.data()), std::streamsize(entry.bytes.size()));
    std::ofstream(folder + "/config.json") << config.dump();
    CHECK(file.good());
}

TemporaryFolder::TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "kapitsa-test-XXXXXX").string();
    CHECK(::mkdtemp(name.data()) != nullptr);
    path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

}  // namespace kapitsa

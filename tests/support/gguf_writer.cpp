#include "support/gguf_writer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "base/check.h"
#include "base/float16.h"
#include "base/utf8.h"

namespace kapitsa {
namespace {

constexpr std::size_t alignment = 32;

template <typename T>
std::string raw(T value) {
    std::string bytes(sizeof value, '\0');
    std::memcpy(bytes.data(), &value, sizeof value);
    return bytes;
}
std::string raw(GgufType type) { return raw(std::uint32_t(type)); }
std::string raw_text(std::string_view text) { return raw(std::uint64_t(text.size())) + std::string(text); }
std::string list_head(GgufType type, std::size_t count) {
    return raw(GgufType::array) + raw(type) + raw(std::uint64_t(count));
}
void pad(std::string& bytes) { bytes.resize((bytes.size() + alignment - 1) / alignment * alignment, '\0'); }

/// The printable stand-ins of bytes, as GPT-2's files have them.
std::string with_stand_ins(std::string_view bytes) {
    std::string text;
    for (const char c : bytes) {
        const auto byte = static_cast<unsigned char>(c);
        const auto prints = [](unsigned b) { return (b >= '!' && b <= '~') || (b >= 0xA1 && b != 0xAD); };
        char32_t code_point = byte;
        if (!prints(byte)) {
            code_point = 0x100;
            for (unsigned before = 0; before < byte; ++before) code_point += !prints(before);
        }
        append_utf8(text, code_point);
    }
    return text;
}

std::uint32_t number_of(ElementType type) {
    switch (type) {
        case ElementType::f32: return 0;
        case ElementType::f16: return 1;
        case ElementType::q8_0: return 8;
        case ElementType::bf16: return 30;
        default: CHECK(false && "the writer does not know this type"); return 0;
    }
}

/// To nearest, ties to even; what f16 cannot hold is no test's business.
std::uint16_t f16_from_float(float value) {
    const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
    const float magnitude = std::fabs(value);
    CHECK(magnitude < 65504.0f);
    if (magnitude < 0x1p-14f)  // subnormal: in units of 2^-24
        return std::uint16_t(sign | std::uint16_t(std::nearbyint(magnitude * 0x1p24f)));
    const auto word = std::bit_cast<std::uint32_t>(magnitude);
    return std::uint16_t(sign | ((word + 0xfff + (word >> 13 & 1) - 0x38000000) >> 13));
}

std::vector<std::byte> q8_0_of(const std::vector<float>& values) {
    CHECK(values.size() % 32 == 0);
    std::vector<std::byte> bytes;
    for (std::size_t first = 0; first < values.size(); first += 32) {
        float largest = 0;
        for (std::size_t i = first; i < first + 32; ++i) largest = std::max(largest, std::fabs(values[i]));
        const float scale = largest / 127.0f, inverse = scale == 0 ? 0 : 1 / scale;
        const std::uint16_t stored = f16_from_float(scale);
        bytes.push_back(std::byte(stored & 255));
        bytes.push_back(std::byte(stored >> 8));
        for (std::size_t i = first; i < first + 32; ++i)
            bytes.push_back(std::byte(std::int8_t(std::round(values[i] * inverse))));
    }
    return bytes;
}

std::vector<float> values_of_q8_0(const std::vector<std::byte>& bytes) {
    std::vector<float> values;
    for (std::size_t block = 0; block < bytes.size(); block += 34) {
        const auto scale = float_from_f16(std::uint16_t(std::to_integer<unsigned>(bytes[block]) |
                                                        std::to_integer<unsigned>(bytes[block + 1]) << 8));
        for (std::size_t i = 2; i < 34; ++i)
            values.push_back(scale * float(std::int8_t(std::to_integer<unsigned>(bytes[block + i]))));
    }
    return values;
}

}  // namespace

GgufWriter& GgufWriter::add(const std::string& key, std::string bytes) {
    remove(key);
    metadata_.push_back({key, std::move(bytes)});
    return *this;
}
void GgufWriter::remove(const std::string& key) {
    std::erase_if(metadata_, [&](const Value& value) { return value.key == key; });
}
void GgufWriter::remove_tensor(const std::string& name) {
    std::erase_if(tensors_, [&](const Tensor& tensor) { return tensor.name == name; });
}
GgufWriter& GgufWriter::text(const std::string& key, std::string_view value) {
    return add(key, raw(GgufType::text) + raw_text(value));
}
GgufWriter& GgufWriter::number(const std::string& key, std::uint32_t value) {
    return add(key, raw(GgufType::u32) + raw(value));
}
GgufWriter& GgufWriter::real(const std::string& key, float value) {
    return add(key, raw(GgufType::f32) + raw(value));
}
GgufWriter& GgufWriter::flag(const std::string& key, bool value) {
    return add(key, raw(GgufType::boolean) + raw(std::uint8_t(value)));
}
GgufWriter& GgufWriter::texts(const std::string& key, const std::vector<std::string>& values) {
    std::string bytes = list_head(GgufType::text, values.size());
    for (const std::string& value : values) bytes += raw_text(value);
    return add(key, std::move(bytes));
}
GgufWriter& GgufWriter::numbers(const std::string& key, const std::vector<std::int32_t>& values) {
    std::string bytes = list_head(GgufType::i32, values.size());
    for (const std::int32_t value : values) bytes += raw(value);
    return add(key, std::move(bytes));
}
GgufWriter& GgufWriter::long_numbers(const std::string& key, const std::vector<std::int64_t>& values) {
    std::string bytes = list_head(GgufType::u64, values.size());
    for (const std::int64_t value : values) bytes += raw(value);
    return add(key, std::move(bytes));
}
GgufWriter& GgufWriter::reals(const std::string& key, const std::vector<float>& values) {
    std::string bytes = list_head(GgufType::f32, values.size());
    for (const float value : values) bytes += raw(value);
    return add(key, std::move(bytes));
}
GgufWriter& GgufWriter::flags(const std::string& key, const std::vector<bool>& values) {
    std::string bytes = list_head(GgufType::boolean, values.size());
    for (const bool value : values) bytes += raw(std::uint8_t(value));
    return add(key, std::move(bytes));
}

GgufWriter& GgufWriter::tensor(const std::string& name, ElementType type, std::vector<std::uint64_t> shape,
                               std::vector<std::byte> bytes) {
    tensors_.push_back({name, type, std::move(shape), std::move(bytes)});
    return *this;
}

GgufWriter& GgufWriter::floats(const std::string& name, ElementType type, std::vector<std::uint64_t> shape,
                               const std::vector<float>& values) {
    return tensor(name, type, std::move(shape), narrowed(type, values));
}

std::string GgufWriter::part(std::size_t first, std::size_t end, const std::vector<Value>& metadata) const {
    std::string bytes = "GGUF" + raw(std::uint32_t(3)) + raw(std::uint64_t(end - first)) +
                        raw(std::uint64_t(metadata.size()));
    for (const Value& value : metadata) bytes += raw_text(value.key) + value.bytes;
    std::size_t offset = 0;
    for (std::size_t i = first; i < end; ++i) {
        const Tensor& tensor = tensors_[i];
        bytes += raw_text(tensor.name) + raw(std::uint32_t(tensor.shape.size()));
        for (auto extent = tensor.shape.rbegin(); extent != tensor.shape.rend(); ++extent)
            bytes += raw(*extent);
        bytes += raw(number_of(tensor.type)) + raw(std::uint64_t(offset));
        offset += (tensor.bytes.size() + alignment - 1) / alignment * alignment;
    }
    pad(bytes);
    for (std::size_t i = first; i < end; ++i) {
        bytes.append(reinterpret_cast<const char*>(tensors_[i].bytes.data()), tensors_[i].bytes.size());
        pad(bytes);
    }
    return bytes;
}

void GgufWriter::write(const std::string& path) const {
    std::ofstream file(path, std::ios::binary);
    file << bytes();
    CHECK(file.good());
}

void GgufWriter::write_parts(const std::string& stem, std::uint32_t parts) const {
    for (std::uint32_t i = 0; i < parts; ++i) {
        auto metadata = i == 0 ? metadata_ : std::vector<Value>{};
        metadata.push_back({"split.no", raw(GgufType::u16) + raw(std::uint16_t(i))});
        metadata.push_back({"split.count", raw(GgufType::u16) + raw(std::uint16_t(parts))});
        metadata.push_back({"split.tensors.count", raw(GgufType::i32) + raw(std::int32_t(tensors_.size()))});
        char tail[32];
        std::snprintf(tail, sizeof tail, "-%05u-of-%05u.gguf", i + 1, parts);
        std::ofstream file(stem + tail, std::ios::binary);
        file << part(tensors_.size() * i / parts, tensors_.size() * (i + 1) / parts, metadata);
        CHECK(file.good());
    }
}

void add_tokenizer(GgufWriter& writer, const TokenizerDescription& description, std::string_view pre) {
    std::size_t count = description.pieces.size();
    for (const AddedToken& added : description.added) count = std::max(count, std::size_t(added.id) + 1);
    std::vector<std::string> tokens(count), merges;
    std::vector<std::int32_t> types(count, 5);  // unused
    for (std::size_t id = 0; id < count; ++id) {
        const bool used = id < description.pieces.size() && !description.pieces[id].empty();
        tokens[id] = used ? with_stand_ins(description.pieces[id]) : "[PAD" + std::to_string(id) + "]";
        if (used) types[id] = 1;
    }
    for (const AddedToken& added : description.added) {
        tokens[std::size_t(added.id)] = added.content;
        types[std::size_t(added.id)] = added.special ? 3 : 4;
    }
    for (const auto& [left, right] : description.merges)
        merges.push_back(with_stand_ins(left) + " " + with_stand_ins(right));
    writer.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", pre);
    writer.texts("tokenizer.ggml.tokens", tokens).numbers("tokenizer.ggml.token_type", types);
    writer.texts("tokenizer.ggml.merges", merges);
}

std::vector<std::byte> narrowed(ElementType type, const std::vector<float>& values) {
    if (type == ElementType::q8_0) return q8_0_of(values);
    std::string bytes;
    for (const float value : values)
        bytes += type == ElementType::f32    ? raw(value)
                 : type == ElementType::bf16 ? raw(bf16_from_float(value))
                                             : raw(f16_from_float(value));
    const auto* from = reinterpret_cast<const std::byte*>(bytes.data());
    return {from, from + bytes.size()};
}

std::vector<float> rounded_to(ElementType type, const std::vector<float>& values) {
    const auto bytes = narrowed(type, values);
    if (type == ElementType::q8_0) return values_of_q8_0(bytes);
    CHECK(type == ElementType::bf16 || type == ElementType::f16);
    std::vector<float> rounded;
    for (std::size_t i = 0; i < bytes.size(); i += 2) {
        std::uint16_t bits;
        std::memcpy(&bits, &bytes[i], sizeof bits);
        rounded.push_back(type == ElementType::bf16 ? float_from_bf16(bits) : float_from_f16(bits));
    }
    return rounded;
}

}  // namespace kapitsa

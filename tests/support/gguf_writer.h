// Writes small GGUF files for tests, whole or in parts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/description.h"
#include "formats/gguf.h"
#include "formats/tokenizer_description.h"

namespace kapitsa {

class GgufWriter {
public:
    /// Metadata, in the order of the calls.
    GgufWriter& text(const std::string& key, std::string_view value);
    GgufWriter& number(const std::string& key, std::uint32_t value);
    GgufWriter& real(const std::string& key, float value);
    GgufWriter& flag(const std::string& key, bool value);
    GgufWriter& texts(const std::string& key, const std::vector<std::string>& values);
    GgufWriter& numbers(const std::string& key, const std::vector<std::int32_t>& values);
    GgufWriter& long_numbers(const std::string& key, const std::vector<std::int64_t>& values);  // as U64
    GgufWriter& reals(const std::string& key, const std::vector<float>& values);
    GgufWriter& flags(const std::string& key, const std::vector<bool>& values);
    void remove(const std::string& key);
    void remove_tensor(const std::string& name);

    /// Shapes outermost first, as everywhere but in the file.
    GgufWriter& tensor(const std::string& name, ElementType type, std::vector<std::uint64_t> shape,
                       std::vector<std::byte> bytes);
    /// Values narrowed to the type: F32, F16, BF16 or Q8_0.
    GgufWriter& floats(const std::string& name, ElementType type, std::vector<std::uint64_t> shape,
                       const std::vector<float>& values);

    std::string bytes() const { return part(0, tensors_.size(), metadata_); }
    void write(const std::string& path) const;
    /// As `stem`-00001-of-0000N.gguf and so on; the metadata in the first.
    void write_parts(const std::string& stem, std::uint32_t parts) const;

private:
    struct Value {
        std::string key, bytes;  // bytes: type and value
    };
    struct Tensor {
        std::string name;
        ElementType type;
        std::vector<std::uint64_t> shape;
        std::vector<std::byte> bytes;
    };
    GgufWriter& add(const std::string& key, std::string bytes);
    std::string part(std::size_t first, std::size_t end, const std::vector<Value>& metadata) const;

    std::vector<Value> metadata_;
    std::vector<Tensor> tensors_;
};

/// The metadata of a byte-level tokenizer that cuts words as `pre` says, as converters write it.
void add_tokenizer(GgufWriter& writer, const TokenizerDescription& description, std::string_view pre);

/// Values narrowed to F32, F16, BF16 or Q8_0.
std::vector<std::byte> narrowed(ElementType type, const std::vector<float>& values);
/// What a reader gets of values that were narrowed and widened again.
std::vector<float> rounded_to(ElementType type, const std::vector<float>& values);

}  // namespace kapitsa

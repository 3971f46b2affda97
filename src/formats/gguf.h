// GGUF: a header, metadata by key, a directory of tensors, then their bytes, aligned. Versions 2 and 3.
// Source: the format's own description (ggml, docs/gguf.md). Reads no tensor data, and believes nothing:
// lengths are compared with what is left of the file before a byte is touched, counts with what that many
// entries must occupy.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/json.h"
#include "base/result.h"
#include "formats/description.h"

namespace kapitsa {

/// The types of metadata, by their numbers in the file.
enum class GgufType : std::uint32_t {
    u8 = 0,
    i8 = 1,
    u16 = 2,
    i16 = 3,
    u32 = 4,
    i32 = 5,
    f32 = 6,
    boolean = 7,
    text = 8,
    array = 9,
    u64 = 10,
    i64 = 11,
    f64 = 12,
};

/// A value of the metadata, as it lies in the file.
struct GgufValue {
    std::string_view key;
    GgufType type = GgufType::u8;  // of the value; of each element where it is a list
    bool is_list = false;
    std::uint64_t count = 1;  // elements of a list
    Bytes bytes;              // of a text its characters; of a list its elements, each text after its length
};

/// All that a file says. Views of the file's bytes.
struct Gguf {
    std::vector<GgufValue> metadata;   // in the order of the file; keys occur once
    std::vector<TensorEntry> tensors;  // likewise; names occur once, bytes do not overlap

    /// Null where there is no such key.
    const GgufValue* find(std::string_view key) const;
    /// "" where there is no such text.
    std::string_view text(std::string_view key) const;
};

/// Every tensor lies inside the file, begins at a multiple of `general.alignment`, has as many bytes as its
/// shape needs, and touches no other. Memory is bounded by a small multiple of the directory's real length.
/// Errors name the key or the tensor, and its field; the caller adds the file's name.
Result<Gguf> read_gguf(Bytes file);

/// The elements of a list of texts, in order; `value` comes from read_gguf.
std::vector<std::string_view> texts_of(const GgufValue& value);
/// The elements of a list of whole numbers of any width. Fault::corrupt_file where it is none, or one leaves
/// 64 bits with a sign.
Result<std::vector<std::int64_t>> whole_numbers_of(const GgufValue& value);

/// The metadata as one JSON object, so that it can be read like a configuration: {"general.name": ...}. What
/// is too long for a setting is left out: lists of more than 4096 elements (a vocabulary) and what follows
/// 4 MiB in all. Text that is not UTF-8 is repaired.
Json settings_of(const Gguf& gguf);

}  // namespace kapitsa

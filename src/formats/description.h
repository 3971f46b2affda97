// What a model file says, in words that no format owns.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace kapitsa {

enum class ElementType : std::uint8_t {
    boolean,
    u8,
    i8,
    f8_e4m3,
    f8_e5m2,
    f8_e8m0,
    u16,
    i16,
    f16,
    bf16,
    u32,
    i32,
    f32,
    u64,
    i64,
    f64,
};

std::size_t element_bytes(ElementType type);
const char* element_name(ElementType type);  // as safetensors spells it: "BF16"

/// A tensor in a mapped file. Row-major; the bytes belong to the mapping and need not be aligned.
struct TensorEntry {
    std::string name;
    ElementType type = ElementType::f32;
    std::vector<std::uint64_t> shape;  // outermost first; empty for a scalar
    Bytes bytes;                       // exactly the product of the shape, in elements
};

}  // namespace kapitsa

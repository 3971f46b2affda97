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
    // What safetensors does not have: GGUF's blocks, in which several columns of a row share scales.
    q4_0,
    q4_1,
    q5_0,
    q5_1,
    q8_0,
    q2_k,
    q3_k,
    q4_k,
    q5_k,
    q6_k,
    iq2_xxs,
    iq2_xs,
    iq2_s,
    iq3_xxs,
    iq3_s,
    iq4_nl,
    iq4_xs,
    tq1_0,
    tq2_0,
    mxfp4,
    nvfp4,
    q1_0,
    q2_0,
};

/// How elements lie in a file: `values` neighbours of a row in `bytes` bytes; one in its own bytes for the
/// scalars.
struct ElementForm {
    const char* name;  // as the container spells it: "BF16", "Q4_K"
    std::uint32_t values, bytes;
};
ElementForm element_form(ElementType type);

std::size_t element_bytes(ElementType type);  // of a scalar
const char* element_name(ElementType type);

/// What a file stores in place of the tensor that it names.
enum class Stored : std::uint8_t {
    plainly,
    as_negated_exponential,  // -exp(w) for w
};

/// A tensor in a mapped file. Row-major; the bytes belong to the mapping and need not be aligned.
struct TensorEntry {
    std::string name;
    ElementType type = ElementType::f32;
    std::vector<std::uint64_t> shape;  // outermost first; empty for a scalar
    Bytes bytes;                       // exactly the product of the shape, in elements or blocks of them
    Stored stored = Stored::plainly;
};

}  // namespace kapitsa

#include "formats/description.h"

#include "base/check.h"

namespace kapitsa {
namespace {

struct Element {
    const char* name;
    std::size_t bytes;
};

constexpr Element element(ElementType type) {
    switch (type) {
        case ElementType::boolean: return {"BOOL", 1};
        case ElementType::u8: return {"U8", 1};
        case ElementType::i8: return {"I8", 1};
        case ElementType::f8_e4m3: return {"F8_E4M3", 1};
        case ElementType::f8_e5m2: return {"F8_E5M2", 1};
        case ElementType::f8_e8m0: return {"F8_E8M0", 1};
        case ElementType::u16: return {"U16", 2};
        case ElementType::i16: return {"I16", 2};
        case ElementType::f16: return {"F16", 2};
        case ElementType::bf16: return {"BF16", 2};
        case ElementType::u32: return {"U32", 4};
        case ElementType::i32: return {"I32", 4};
        case ElementType::f32: return {"F32", 4};
        case ElementType::u64: return {"U64", 8};
        case ElementType::i64: return {"I64", 8};
        case ElementType::f64: return {"F64", 8};
    }
    return {nullptr, 0};
}

}  // namespace

std::size_t element_bytes(ElementType type) {
    const Element found = element(type);
    CHECK(found.bytes != 0);
    return found.bytes;
}

const char* element_name(ElementType type) {
    const Element found = element(type);
    CHECK(found.name != nullptr);
    return found.name;
}

}  // namespace kapitsa

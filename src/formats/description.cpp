#include "formats/description.h"

#include "base/check.h"

namespace kapitsa {
namespace {

constexpr ElementForm form_of(ElementType type) {
    switch (type) {
        case ElementType::boolean: return {"BOOL", 1, 1};
        case ElementType::u8: return {"U8", 1, 1};
        case ElementType::i8: return {"I8", 1, 1};
        case ElementType::f8_e4m3: return {"F8_E4M3", 1, 1};
        case ElementType::f8_e5m2: return {"F8_E5M2", 1, 1};
        case ElementType::f8_e8m0: return {"F8_E8M0", 1, 1};
        case ElementType::u16: return {"U16", 1, 2};
        case ElementType::i16: return {"I16", 1, 2};
        case ElementType::f16: return {"F16", 1, 2};
        case ElementType::bf16: return {"BF16", 1, 2};
        case ElementType::u32: return {"U32", 1, 4};
        case ElementType::i32: return {"I32", 1, 4};
        case ElementType::f32: return {"F32", 1, 4};
        case ElementType::u64: return {"U64", 1, 8};
        case ElementType::i64: return {"I64", 1, 8};
        case ElementType::f64: return {"F64", 1, 8};
        case ElementType::q4_0: return {"Q4_0", 32, 18};
        case ElementType::q4_1: return {"Q4_1", 32, 20};
        case ElementType::q5_0: return {"Q5_0", 32, 22};
        case ElementType::q5_1: return {"Q5_1", 32, 24};
        case ElementType::q8_0: return {"Q8_0", 32, 34};
        case ElementType::q2_k: return {"Q2_K", 256, 84};
        case ElementType::q3_k: return {"Q3_K", 256, 110};
        case ElementType::q4_k: return {"Q4_K", 256, 144};
        case ElementType::q5_k: return {"Q5_K", 256, 176};
        case ElementType::q6_k: return {"Q6_K", 256, 210};
        case ElementType::iq2_xxs: return {"IQ2_XXS", 256, 66};
        case ElementType::iq2_xs: return {"IQ2_XS", 256, 74};
        case ElementType::iq2_s: return {"IQ2_S", 256, 82};
        case ElementType::iq3_xxs: return {"IQ3_XXS", 256, 98};
        case ElementType::iq3_s: return {"IQ3_S", 256, 110};
        case ElementType::iq4_nl: return {"IQ4_NL", 32, 18};
        case ElementType::iq4_xs: return {"IQ4_XS", 256, 136};
        case ElementType::tq1_0: return {"TQ1_0", 256, 54};
        case ElementType::tq2_0: return {"TQ2_0", 256, 66};
        case ElementType::mxfp4: return {"MXFP4", 32, 17};
        case ElementType::nvfp4: return {"NVFP4", 64, 36};
        case ElementType::q1_0: return {"Q1_0", 128, 18};
        case ElementType::q2_0: return {"Q2_0", 64, 18};
    }
    return {nullptr, 0, 0};
}

}  // namespace

ElementForm element_form(ElementType type) {
    const ElementForm form = form_of(type);
    CHECK(form.name != nullptr);
    return form;
}

std::size_t element_bytes(ElementType type) {
    const ElementForm form = element_form(type);
    CHECK(form.values == 1);
    return form.bytes;
}

const char* element_name(ElementType type) { return element_form(type).name; }

}  // namespace kapitsa

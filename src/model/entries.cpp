#include "model/entries.h"

#include <cstring>

#include "base/float16.h"

namespace kapitsa {

std::string shape_text(const Shape& shape) {
    std::string text = "[";
    for (const std::uint64_t extent : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
    return text + "]";
}

Status expect_shape(const TensorEntry& entry, const Shape& shape) {
    if (entry.shape == shape) return Done{};
    return fail(Fault::corrupt_file, entry.name + " has the shape " + shape_text(entry.shape) +
                                         "; by the model's configuration it must have " + shape_text(shape));
}

Status expect_type(const TensorEntry& entry, ElementType type) {
    if (entry.type == type) return Done{};
    return fail(Fault::corrupt_file, entry.name + " is stored as " + element_name(entry.type) +
                                         "; it must be " + element_name(type));
}

Shape with_columns(Shape outer, std::uint64_t columns) {
    outer.push_back(columns);
    return outer;
}

Result<std::uint32_t> rows_of(const TensorEntry& entry, const Shape& outer) {
    std::uint64_t rows = 1;
    for (const std::uint64_t extent : outer) rows *= extent;
    if (outer.size() <= 2 && rows <= ~std::uint32_t{0}) return std::uint32_t(rows);
    return fail(Fault::unsupported, entry.name + " has more than 2^32 rows");
}

Result<Weight::Form> dense_form(const TensorEntry& entry) {
    switch (entry.type) {
        case ElementType::f32: return Weight::Form::f32;
        case ElementType::f16: return Weight::Form::f16;
        case ElementType::bf16: return Weight::Form::bf16;
        default:
            return fail(
                Fault::unsupported,
                entry.name + " is stored as " + element_name(entry.type) +
                    "; it may be F32, F16 or BF16, or a matrix in one of the forms of docs/models.md");
    }
}

Result<std::vector<float>> floats_of(const TensorEntry& entry) {
    const std::byte* from = entry.bytes.data();
    if (entry.type == ElementType::f8_e8m0) {
        std::vector<float> values(entry.bytes.size());
        for (std::size_t i = 0; i < values.size(); ++i)
            values[i] = blocks::e8m0(std::to_integer<uint>(from[i]));
        return values;
    }
    const Weight::Form form = TRY(dense_form(entry));
    std::vector<float> values(entry.bytes.size() / element_bytes(entry.type));
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (form == Weight::Form::f32) {
            std::memcpy(&values[i], from + 4 * i, 4);
        } else {
            std::uint16_t bits;
            std::memcpy(&bits, from + 2 * i, 2);
            values[i] = form == Weight::Form::bf16 ? float_from_bf16(bits) : float_from_f16(bits);
        }
    }
    return values;
}

}  // namespace kapitsa

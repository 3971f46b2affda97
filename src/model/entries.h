// Tensors of a file, compared with what a model expects of them.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "formats/description.h"
#include "model/weight.h"

namespace kapitsa {

using Shape = std::vector<std::uint64_t>;

std::string shape_text(const Shape& shape);
/// Fault::corrupt_file, with both shapes.
Status expect_shape(const TensorEntry& entry, const Shape& shape);
/// Fault::corrupt_file, with both types.
Status expect_type(const TensorEntry& entry, ElementType type);
Shape with_columns(Shape outer, std::uint64_t columns);
/// Of a matrix whose rows are counted by these extents, all of them beyond 0 and below 2^32.
Result<std::uint32_t> rows_of(const TensorEntry& entry, const Shape& outer);

/// f32, f16 or bf16; Fault::unsupported for what is stored otherwise.
Result<Weight::Form> dense_form(const TensorEntry& entry);
/// The values of a tensor of F32, F16 or BF16, or of F8_E8M0, as scales may be.
Result<std::vector<float>> floats_of(const TensorEntry& entry);

}  // namespace kapitsa

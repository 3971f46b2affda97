// A golden checkpoint in other forms: the tensors of a folder as floats, and back to a folder as one form
// stores them, beside a twin of plain floats that mean the same. Names and layout are the family's own.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "formats/checkpoint.h"
#include "support/golden.h"

namespace kapitsa {

struct NamedTensor {
    std::string name;
    Array<float> tensor;
    // Whole numbers, which every form leaves as they are: their type and bytes; `tensor` has only their
    // shape.
    ElementType whole_type = ElementType::f32;
    std::vector<std::byte> whole = {};
};

/// Sorted by name.
std::vector<NamedTensor> tensors_of(const Checkpoint& checkpoint);

/// How matrices are stored.
struct StoredForm {
    enum class Kind { f32, bf16, affine } kind = Kind::f32;
    std::uint32_t bits = 0;   // of affine codes
    std::uint32_t group = 0;  // columns to a scale
    ElementType scales = ElementType::bf16;
};

/// The matrices that quantisers take: those whose rows are whole groups. One tensor of all experts counts as
/// a matrix.
/// @return the module, or "" if it is none
std::string quantisable_module(const NamedTensor& named, std::uint32_t group);

/// Writes `folder`/stored, each matrix in the form that `form_of` gives for its module, and `folder`/plain,
/// with the floats that those stand for. Vectors are rounded to bf16 where their form is that, and plain
/// otherwise. The config gets the "quantization" that says so, with exceptions by module where affine forms
/// differ.
void write_forms(const std::string& folder, const std::vector<NamedTensor>& tensors, const Json& config,
                 const std::function<StoredForm(const std::string& module)>& form_of);

}  // namespace kapitsa

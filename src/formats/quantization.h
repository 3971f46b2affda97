// What config.json says of MLX quantisation: one form for the model, and exceptions by module path.
//     "quantization": {"group_size": 64, "bits": 4, "mode": "affine", "lm_head": false, "a.b": {"bits": 8,
//     ...}}
// Which modules are quantised the tensors decide (a module with `.scales` is); this says in what form.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace kapitsa {

/// Each row is cut into groups of `group_size` columns; a group has one scale and one bias, and a column a
/// code of `bits` bits: value = scale * code + bias.
struct AffineForm {
    std::uint32_t group_size = 64;  // 32, 64 or 128
    std::uint32_t bits = 4;         // 2, 3, 4, 5, 6 or 8
    bool operator==(const AffineForm&) const = default;
};

class Quantization {
public:
    /// Of the whole config.json, an object. Without a "quantization" field (nor its copy,
    /// "quantization_config") nothing is quantised. Fault::unsupported, by name, for another project's
    /// "quantization_config" (one with a quant_method). Only the shape of the field is judged here: a form we
    /// cannot compute is refused for the module that has it.
    static Result<Quantization> read(const Json& config);

    /// The form of a module ("model.layers.0.mlp.up_proj"); nothing where the module is to be plain.
    /// Fault::unsupported for a mode that is not affine, and for bits and group sizes outside the above.
    Result<std::optional<AffineForm>> of(std::string_view module) const;

private:
    struct Form {
        std::string field;  // where it was said, for messages: "config.json: quantization"
        std::string mode;
        AffineForm affine;
    };
    static Result<Form> read_form(const Json& object, const std::string& field);

    std::optional<Form> global_;
    std::map<std::string, std::optional<Form>, std::less<>> modules_;  // the exceptions; nothing for `false`
};

}  // namespace kapitsa

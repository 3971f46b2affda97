// What config.json says of MLX quantisation: one form for the model, and exceptions by module path.
//     "quantization": {"group_size": 64, "bits": 4, "mode": "affine", "lm_head": false, "a.b": {"bits": 8,
//     ...}}
// Modes are affine, mxfp4, mxfp8 and nvfp4.
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

/// How a matrix is quantised: each row is cut into groups of `group_size` columns that share a scale (affine:
/// a scale and a bias), and a column has a code of `bits` bits.
struct QuantizedForm {
    enum class Kind : std::uint8_t { affine, mxfp4, mxfp8, nvfp4, fp8 };
    Kind kind = Kind::affine;
    std::uint32_t group_size = 64;  // affine: 32, 64 or 128; nvfp4: 16; mxfp: 32; fp8: 0, by rows or tiles
    std::uint32_t bits = 4;         // affine: 2, 3, 4, 5, 6 or 8; mxfp4, nvfp4: 4; mxfp8, fp8: 8
    bool operator==(const QuantizedForm&) const = default;
};
std::string name_of(const QuantizedForm& form);  // "nvfp4", "affine of 4 bits"

class Quantization {
public:
    /// Of the whole config.json, an object. Without a "quantization" field (nor its copy,
    /// "quantization_config") nothing is quantised by MLX; another project's "quantization_config" has a
    /// quant_method (formats/quantized_layers.h). Only the shape of the field is judged here: a form we
    /// cannot compute is refused for the module that has it.
    static Result<Quantization> read(const Json& config);

    /// The form of a module ("model.layers.0.mlp.up_proj"); nothing where the module is to be plain.
    /// Fault::unsupported for another mode, and for bits and group sizes outside the above.
    Result<std::optional<QuantizedForm>> of(std::string_view module) const;

private:
    struct Form {
        std::string field;  // where it was said, for messages: "config.json: quantization"
        std::string mode;
        std::uint32_t group_size = 0, bits = 0;
    };
    static Result<Form> read_form(const Json& object, const std::string& field);

    std::optional<Form> global_;
    std::map<std::string, std::optional<Form>, std::less<>> modules_;  // the exceptions; nothing for `false`
};

}  // namespace kapitsa

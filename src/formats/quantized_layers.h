// What a model folder says of quantisation where MLX did not write it: ModelOpt (hf_quant_config.json, or
// quantization_config in config.json), compressed-tensors, and FP8 in the manner of DeepSeek. Which modules
// are quantised, and how, the tensors decide; what is said here must not contradict them. It is about weights
// alone: how activations and the cache would be quantised is read over, since ours are f32.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "formats/quantization.h"

namespace kapitsa {

class QuantizedLayers {
public:
    /// Of config.json, and of hf_quant_config.json where there is one: it counts where config.json says
    /// nothing. Fault::unsupported names the field that says what we cannot compute.
    static Result<QuantizedLayers> read(const Json& config, const Json* hf_quant_config);

    /// Fault::corrupt_file if something else is said of a module than that it is stored so. Nothing said is
    /// no contradiction.
    Status expect(std::string_view module, const QuantizedForm& stored) const;

    /// Rows and columns that share a scale of FP8 by blocks.
    std::uint32_t tile_rows() const { return tile_rows_; }
    std::uint32_t tile_columns() const { return tile_columns_; }

private:
    /// The first rule whose pattern fits a module counts.
    struct Rule {
        std::string pattern;                // of module names; * stands for any characters
        std::optional<QuantizedForm> form;  // nothing: plain
        std::string field;                  // that says so, for messages
    };
    class Reader;

    std::vector<Rule> rules_;
    std::uint32_t tile_rows_ = 128, tile_columns_ = 128;
};

/// Whether a name fits a pattern in which * stands for any characters. Time is the product of the lengths at
/// most.
bool fits(std::string_view pattern, std::string_view name);

/// The pattern with * of a regular expression that begins where the name does: of one made of characters,
/// escaped dots, `.*`, a last `$`. Nothing for another: what it says is not used.
std::optional<std::string> pattern_of_regex(std::string_view regex);

}  // namespace kapitsa

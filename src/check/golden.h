// Reference outputs of a model, as a folder of goldens holds them, and how far a model's own are from them.
// The forms: NAME.safetensors with `CASE.ids` or `CASE.input_ids`, `CASE.logits` (also `logits_fp32`),
// `CASE.hidden` and `CASE.greedy`; what is missing there is looked for in NAME.json. Nothing that a file says
// is trusted.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "formats/arrays.h"
#include "formats/checkpoint.h"
#include "model/load.h"

namespace kapitsa {

/// Two right orders of the same sums differ by up to 2e-4 in a logit of the models that have goldens.
constexpr double golden_limit = 5e-4;

struct GoldenArray {
    std::string tensor;  // its name in the file
    Array<float> values;
};

/// One prompt, and what the reference computed of it.
struct GoldenCase {
    std::string name;
    std::vector<Token> ids;
    std::vector<GoldenArray> logits;  // [rows, vocabulary] of the last rows
    std::optional<GoldenArray>
        hidden;  // [layers + 1, rows, width] of the last rows: the stream after each layer
    bool begins_with_embeddings = false;  // hidden: the first is what goes into the layers; else the last is
                                          // the final norm's output, which may be missing
    std::string greedy_name;
    std::vector<Token> greedy;  // the tokens that follow the prompt; none: not said
};

struct Goldens {
    std::vector<GoldenCase> cases;
    std::vector<std::string> passed_over;  // arrays that are compared with nothing here
};

/// @param path a folder with one file of goldens (golden.safetensors, goldens.safetensors,
/// goldens-*.safetensors)
///     and perhaps logits_f64.safetensors, or such a file
/// @param config of the model: where goldens hold runs with several settings, only those with its own are
/// taken
Result<Goldens> read_goldens(const std::string& path, const Json& config);

/// Where an output is furthest from the reference's.
struct GoldenResult {
    std::string golden, tensor;                         // the case, the array
    std::vector<std::uint64_t> position;                // in the array; of answers: the place in the answer
    double difference = 0, limit = 0;                   // of answers: 0 or 1
    double expected = 0, computed = 0;                  // there
    bool holds() const { return difference <= limit; }  // NaN does not
};

/// Loads the model and compares all cases. `progress` is told of each case; false stops with
/// Fault::cancelled. Fault::invalid_input where the arrays cannot be this model's.
Result<std::vector<GoldenResult>> compare_with_goldens(
    const Checkpoint& checkpoint, const Goldens& goldens, double limit, const RunnerOptions& options,
    const std::function<bool(const std::string&)>& progress);

}  // namespace kapitsa

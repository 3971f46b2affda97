// Reference outputs for tests, from tests/data/goldens. They are our own files: one that is missing, or has
// not what a test asks of it, is a mistake of ours, so these functions abort with a sentence instead of
// returning it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "formats/arrays.h"

namespace kapitsa {

/// A .safetensors file of arrays.
class Golden {
public:
    /// @param path below tests/data/goldens ("qwen3_5-dense/golden.safetensors"), or absolute
    explicit Golden(const std::string& path);

    bool has(std::string_view name) const { return file_.has(name); }
    std::vector<std::string> names() const { return file_.names(); }  // sorted

    /// F32, BF16, F16, F64 (rounded) or any integer, as floats.
    Array<float> floats(std::string_view name) const;
    /// F32, BF16, F16 and F64, exactly.
    Array<double> doubles(std::string_view name) const;
    /// Any integer type or BOOL. U64 beyond int64 aborts.
    Array<std::int64_t> ints(std::string_view name) const;
    /// As it lies in the file; the Golden owns the bytes.
    const TensorEntry& entry(std::string_view name) const;

private:
    ArrayFile file_;
};

/// A JSON file below tests/data/goldens, or absolute.
Json read_golden_json(const std::string& path);

/// The folder of the bf16 model whose goldens are in tests/data/goldens/tiny-bf16, from the environment
/// variable KAPITSA_TINY_BF16; nothing where it is not set. A test without it says so:
///     const auto folder = tiny_bf16_folder();
///     if (!folder) GTEST_SKIP() << no_tiny_bf16;
std::optional<std::string> tiny_bf16_folder();
constexpr const char* no_tiny_bf16 =
    "the bf16 model is not in the repository: set KAPITSA_TINY_BF16 to its folder to run this test";

}  // namespace kapitsa

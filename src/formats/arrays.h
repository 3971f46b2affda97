// The numbers of a safetensors file as plain arrays, for what is no weight: reference outputs, inputs of
// tests.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "formats/description.h"
#include "formats/mapped_file.h"

namespace kapitsa {

template <typename T>
struct Array {
    std::vector<T> values;             // row-major
    std::vector<std::uint64_t> shape;  // outermost first; empty for a scalar
};

/// A .safetensors file of arrays. Errors name the file and the array.
class ArrayFile {
public:
    static Result<ArrayFile> open(const std::string& path);

    bool has(std::string_view name) const { return tensors_.contains(std::string(name)); }
    std::vector<std::string> names() const;  // sorted
    /// As it lies in the file, which owns the bytes.
    Result<const TensorEntry*> entry(std::string_view name) const;

    /// F32, BF16, F16, F64 (rounded) or any integer, as floats.
    Result<Array<float>> floats(std::string_view name) const;
    /// F32, BF16, F16 and F64, exactly.
    Result<Array<double>> doubles(std::string_view name) const;
    /// Any integer type or BOOL; no U64 beyond int64.
    Result<Array<std::int64_t>> ints(std::string_view name) const;

private:
    ArrayFile(std::string path, MappedFile file) : path_(std::move(path)), file_(std::move(file)) {}

    std::string path_;
    MappedFile file_;
    std::unordered_map<std::string, TensorEntry> tensors_;
};

}  // namespace kapitsa

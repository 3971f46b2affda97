// Writes small checkpoints for tests: a folder with config.json and one model.safetensors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "formats/description.h"

namespace kapitsa {

class CheckpointWriter {
public:
    void add(const std::string& name, ElementType type, std::vector<std::uint64_t> shape,
             std::vector<std::byte> bytes);
    void add_floats(const std::string& name, std::vector<std::uint64_t> shape,
                    const std::vector<float>& values);

    /// Quantises a matrix as MLX does, with scales and biases stored in bf16, f16 or f32.
    /// @return the matrix that the codes stand for, each weight scale * code + bias rounded once to f32
    std::vector<float> add_affine(const std::string& module, std::uint64_t rows, std::uint64_t columns,
                                  const std::vector<float>& values, std::uint32_t bits, std::uint32_t group,
                                  ElementType scale_type);
    /// The same for a tensor of any extents, whose last are the columns.
    std::vector<float> add_affine(const std::string& module, std::vector<std::uint64_t> shape,
                                  const std::vector<float>& values, std::uint32_t bits, std::uint32_t group,
                                  ElementType scale_type);

    /// Makes the folder (which must not be there yet) and writes it.
    void write(const std::string& folder, const Json& config) const;

private:
    struct Entry {
        std::string name;
        ElementType type;
        std::vector<std::uint64_t> shape;
        std::vector<std::byte> bytes;
    };
    std::vector<Entry> entries_;
};

/// A folder of this test's own, gone when it goes out of scope.
class TemporaryFolder {
public:
    TemporaryFolder();
    TemporaryFolder(const TemporaryFolder&) = delete;
    ~TemporaryFolder();
    const std::string& path() const { return path_; }

private:
    std::string path_;
};

}  // namespace kapitsa

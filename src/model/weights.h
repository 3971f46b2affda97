// The tensors of a checkpoint, taken by name with the shape that they must have. A name that is never taken
// is an error at the end: a file we half understand is a file we would half compute.
//
// Matrices are used where they are mapped when the device shares the host's memory; vectors become f32.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "backend/backend.h"
#include "formats/checkpoint.h"
#include "formats/quantization.h"
#include "formats/quantized_layers.h"
#include "model/disk_memory.h"
#include "model/entries.h"

namespace kapitsa {

class Weights {
public:
    /// All must outlive this; `checkpoint` must outlive what runs on the weights. `disk` is told of all
    /// matrices of experts and tables; null: nobody is.
    static Result<Weights> of(const Checkpoint& checkpoint, Backend& backend, DiskMemory* disk = nullptr);

    bool has(std::string_view tensor) const { return checkpoint_->tensors.contains(std::string(tensor)); }
    /// The shape of a tensor that is there; empty otherwise.
    std::vector<std::uint64_t> shape(std::string_view tensor) const;

    /// How the elements of a tensor are stored, if it is there.
    std::optional<ElementType> type(std::string_view tensor) const;

    /// The matrix of a module: `module`.weight (else `module` itself), quantised if `module`.scales exists.
    Result<Weight> matrix(const std::string& module, std::uint32_t rows, std::uint32_t columns);
    /// Two matrices that stand side by side in the one of a module, [rows, 2 * columns], of floats or GGUF's
    /// blocks. They are copied.
    Result<std::array<Weight, 2>> side_by_side(const std::string& module, std::uint32_t rows,
                                               std::uint32_t columns);
    /// A matrix of FP8 whose one factor is not its own: the parts of a table share theirs.
    Result<Weight> fp8_by_factor(const std::string& module, const std::string& factor, std::uint32_t rows,
                                 std::uint32_t columns);
    /// One matrix of each expert, stored as one tensor [experts, rows, columns]: `module`.weight or `module`
    /// itself. @return by expert
    Result<std::vector<Weight>> stack(const std::string& module, std::uint32_t experts, std::uint32_t rows,
                                      std::uint32_t columns);
    /// Makes a value of one kind of matrix of the experts of `layer`. They are not copied.
    Result<ExpertWeights> experts(const std::string& layer, std::span<const Weight> matrices);
    /// The same of a table that lies in parts, of which a row is read here and there: it does not count among
    /// the bytes that must lie in memory. @param picks that each row of a step looks up
    Result<ExpertWeights> table(std::span<const Weight> parts, std::uint32_t picks);
    /// A tensor as floats on the host, for vectors that are prepared once.
    Result<std::vector<float>> floats(const std::string& tensor, const std::vector<std::uint64_t>& shape);
    /// A tensor of I64, none of them negative, on the host.
    Result<std::vector<std::uint64_t>> whole_numbers(const std::string& tensor,
                                                     const std::vector<std::uint64_t>& shape);
    /// Bytes to the device.
    Result<Address> upload_bytes(Bytes bytes);
    /// exp(w) of a tensor. Some files store -exp(w) in its place, and then nothing is rounded twice.
    Result<std::vector<float>> exponentials(const std::string& tensor,
                                            const std::vector<std::uint64_t>& shape);
    /// Floats to the device.
    Result<Tensor> upload(std::span<const float> values, std::uint32_t rows, std::uint32_t columns);

    Result<Address> upload(std::span<const std::uint32_t> words);

    /// Leaves aside all tensors whose names begin so: parts of the checkpoint that this model can do without.
    void set_aside(std::string_view prefix);
    /// Fault::unsupported, with the names, if tensors are left over.
    Status finish() const;
    /// The same for the tensors alone whose names begin so, set aside or not.
    Status finish(std::string_view prefix) const;

    /// Bytes of the matrices taken so far, but for tables in parts.
    std::uint64_t bytes() const { return bytes_; }

private:
    Weights(const Checkpoint& checkpoint, Backend& backend, Quantization by_mlx, QuantizedLayers by_others)
        : checkpoint_(&checkpoint),
          backend_(&backend),
          quantization_(std::move(by_mlx)),
          layers_(std::move(by_others)) {}

    Result<const TensorEntry*> take(const std::string& name);
    std::string tensor_of(const std::string& module) const;
    template <typename Concerns>
    Status all_taken(Concerns concerns) const;
    /// `outer`: the extents before the columns, whose product are the matrix's rows.
    Result<Weight> matrix_of(const std::string& module, const Shape& outer, std::uint32_t columns);
    Result<Weight> by_mlx(const std::string& module, const Shape& outer, std::uint32_t columns);
    Result<Weight> affine(const std::string& module, const QuantizedForm& form, const Shape& outer,
                          std::uint32_t columns);
    bool stores_exponentials(const std::string& tensor) const;
    Result<std::vector<float>> stored_floats(const std::string& tensor,
                                             const std::vector<std::uint64_t>& shape);
    /// Parts of a product for matrices that are alike. @param all what they are: "the experts of a layer"
    Result<ExpertWeights> together(const char* all, std::span<const Weight> matrices);
    /// At a multiple of `alignment`.
    Result<Address> place(const TensorEntry& entry, std::size_t alignment);

    // quantized_weights.cpp: weights in blocks.
    Result<Weight> mlx_blocks(const std::string& module, const QuantizedForm& form, const Shape& outer,
                              std::uint32_t columns);
    Result<Weight> packed(const std::string& module, const Shape& outer, std::uint32_t columns);
    Result<Weight> nvfp4(const std::string& module, const TensorEntry& codes, const Shape& outer,
                         std::uint32_t columns);
    Result<Weight> fp8(const std::string& module, const TensorEntry& codes, const Shape& outer,
                       std::uint32_t columns);
    Result<Weight> gguf_blocks(const std::string& module, const TensorEntry& blocks, const Shape& outer,
                               std::uint32_t columns);
    static Status expect_groups(const std::string& module, std::uint32_t columns, std::uint32_t group);
    /// Refuses what changes the weights' meaning, and takes what is about activations alone.
    Status take_companions(const std::string& module);
    /// A matrix of one scale to a group; its scales in `scales`, in the file's own bytes.
    Result<Weight> with_scales(const std::string& module, BlockForm form, const TensorEntry& codes,
                               const TensorEntry& scales, const Shape& outer, std::uint32_t columns);
    /// One factor for the matrix, or one an expert.
    Status set_factor(Weight& weight, const TensorEntry& entry, const Shape& outer, bool reciprocal);
    Status upload_factors(Weight& weight, const TensorEntry& entry, std::vector<float> values);
    /// Device memory for few bytes: a model of experts has tens of thousands of single numbers.
    Result<Address> small_room(std::size_t bytes);

    const Checkpoint* checkpoint_;
    Backend* backend_;
    DiskMemory* disk_ = nullptr;
    Quantization quantization_;
    QuantizedLayers layers_;
    std::unordered_set<std::string> taken_;
    std::vector<std::string> aside_;
    std::uint64_t bytes_ = 0;
    Address small_{};  // what is left of the last small_room
    std::size_t small_left_ = 0;
};

/// Rows [first, first + count) of a matrix that a file has as one. Fault::unsupported where a scale is for
/// rows on both sides of the cut.
Result<Weight> cut(const Weight& matrix, const std::string& module, std::uint32_t first, std::uint32_t count);

}  // namespace kapitsa

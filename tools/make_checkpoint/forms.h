// How the tensors of a random checkpoint are stored. Weights are drawn in their stored form: random codes,
// and scales that give the matrix its spread. Nothing is quantised, so drawing costs no more than writing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/description.h"
#include "make_checkpoint/plan.h"

namespace kapitsa::random_checkpoint {

struct Form {
    std::string_view name;
    enum class Kind : std::uint8_t { plain, affine, fp_blocks, fp8 } kind;
    ElementType base = ElementType::bf16;  // of what is not quantised
    std::uint32_t bits = 0, group = 0;     // to a scale
    std::string_view mode = "";            // as MLX calls it
};

/// By name: f32, f16, bf16, affine2 to affine8, nvfp4, mxfp4, mxfp8, fp8.
std::optional<Form> form_named(std::string_view name);
std::string form_names();

/// A tensor as it lies in a file.
struct Piece {
    std::string name;
    ElementType type;
    std::vector<std::uint64_t> shape;
    std::uint64_t bytes;
    /// What its elements are drawn from, one behind the other: a power of two of them; empty: any bits at
    /// all.
    std::vector<std::byte> table;
};

std::vector<Piece> pieces_of(const PlannedTensor& tensor, const Form& form);
/// What config.json says of the form.
void describe(const Form& form, Json& config);
/// What the writers of the form do with experts.
ExpertLayout expert_layout(const Form& form);

/// The bytes of a piece, drawn as they are asked for: the same for the same seed and name.
class Draw {
public:
    Draw(const Piece& piece, std::uint64_t seed);
    /// Elements are never cut in two: `to` is a multiple of 16 bytes, but for the last.
    void next(std::span<std::byte> to);

private:
    std::uint64_t random();
    template <std::size_t width>
    void pick(std::span<std::byte> to);

    const Piece& piece_;
    std::uint64_t state_;
};

}  // namespace kapitsa::random_checkpoint

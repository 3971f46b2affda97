// Which vision tower (mmproj) a GGUF model is shown images by: the one that is named, or the one beside it
// that fits.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "formats/checkpoint.h"

namespace kapitsa {

/// In place of a file: the model is to see nothing.
constexpr std::string_view no_tower = "off";

struct TowerChoice {
    std::optional<Checkpoint> tower;  // as open_tower gives it
    std::size_t fitting = 0;          // towers that could have been taken
    std::string refused;              // why what lies beside the model is not taken; "" if nothing does
};

/// @param model as open_model gives it   @param wanted a file, no_tower, or "": what lies beside the model.
/// A file that is named must fit. Of several beside the model it is the one whose name agrees with the
/// model's the furthest; then one whose weights are of the model's type, then BF16, F16, F32, others.
Result<TowerChoice> choose_tower(const Checkpoint& model, const std::string& wanted);
/// The same among these files.
TowerChoice choose_tower(const Checkpoint& model, const std::vector<std::string>& files);

/// The type that most bytes of the matrices have.
ElementType main_type(const Checkpoint& checkpoint);

/// Chooses a tower and makes it a part of the model. Where one lies beside it and cannot be, the model says
/// so when it is shown an image. @return what people are told of the choice; "" if nothing was chosen
Result<std::string> give_tower(Checkpoint& model, const std::string& wanted);

}  // namespace kapitsa

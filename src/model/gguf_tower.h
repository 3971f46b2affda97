// A vision tower that is a GGUF file of its own (mmproj), and the GGUF model that is shown images by it. What
// such a file says in which words is each family's to know: GgufDialect.
#pragma once

#include <string>

#include "base/result.h"
#include "formats/checkpoint.h"

namespace kapitsa {

/// Opens the tower at `path` for a model that open_model gave, in the words of a model folder: `config` holds
/// what it adds to the model's. All its fields and the names of its tensors have been looked at; the shapes
/// are when the model is loaded. Fault::invalid_input where it belongs to another model.
Result<Checkpoint> open_tower(const Checkpoint& model, const std::string& path);

/// The same of a tower whose file has been read.
Status translate_tower(const Checkpoint& model, Checkpoint& tower);

/// Makes the tower a part of the model, as it is in a model folder.
Status add_tower(Checkpoint& model, Checkpoint tower);

}  // namespace kapitsa

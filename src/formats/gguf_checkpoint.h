// A GGUF file, or the parts of a split one, as a Checkpoint: the same view of a model as that of a folder.
// Names of tensors and settings are still those of GGUF; what they are called elsewhere is each
// architecture's to say (model/gguf_dialect.h).
#pragma once

#include <string>

#include "base/result.h"
#include "formats/checkpoint.h"

namespace kapitsa {

/// Whether the file begins as GGUF files do, whatever its name: a blob of a download cache has none.
bool is_gguf(const std::string& path);

/// The path of each part of the model that the file belongs to, in order: NAME-00001-of-00003.gguf and its
/// siblings, or the file alone. Which of them `path` is does not matter. Looks at the name alone.
std::vector<std::string> gguf_parts(const std::string& path);

/// Opens the file and its siblings, whose metadata must agree that they belong together. `config` holds the
/// settings of the first part, by their keys in the file; template, tokens and sampling stand where a
/// Checkpoint has them. Fault::unsupported for a vision tower, which is no model of its own.
Result<Checkpoint> open_gguf(const std::string& path);

/// Opens a vision tower (mmproj), and nothing else, in the same way.
Result<Checkpoint> open_gguf_tower(const std::string& path);

}  // namespace kapitsa

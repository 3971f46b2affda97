// GGUF models among files and folders: which files are one, and what they are called. Looks at names and at
// the first bytes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/models.h"

namespace kapitsa {

/// The model that a file is, or the only one of a folder; nothing for other files, and for a folder with none
/// or several. The path is that of the file to open.
std::optional<ModelFolder> gguf_model(const std::string& path);

/// The models of a folder: of each the file to open, by name. Vision towers are none.
std::vector<std::string> gguf_models_in(const std::string& folder);

/// What the file and the other parts of the same model take on the disk.
std::uint64_t gguf_bytes(const std::string& file);

/// The vision towers beside a model: *mmproj*.gguf and *.mmproj.
std::vector<std::string> vision_towers_beside(const std::string& file);

/// "some-model" of "/models/some-model-00001-of-00003.gguf".
std::string gguf_name(const std::string& path);

}  // namespace kapitsa

// What `kapitsa import` keeps: a folder in models_folder() with the parts of a GGUF file and a note of where
// they came from. The note is how we know a folder of ours from one that a person put there.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace kapitsa {

/// How the bytes are kept.
enum class Kept {
    linked,      // a second name of the same file: it stays when the first is removed
    referenced,  // across file systems: gone when the original is
    copied,
};
const char* kept_text(Kept kept);

/// Keeps the parts of a model under `name`, and beside them those of its vision tower, if it has one; all of
/// them, or nothing. Fault::invalid_input when the name is taken or no name of a folder, and for what the
/// file system refuses.
Result<Kept> keep_model(const std::vector<std::string>& files, const std::vector<std::string>& tower,
                        const std::string& name, bool copy);

/// Removes what keep_model made. Fault::invalid_input for another folder: that is for its owner to remove.
Status remove_model(const std::string& name);

/// `wanted` with what no folder should be called replaced by "-".
std::string store_name(std::string_view wanted);

}  // namespace kapitsa

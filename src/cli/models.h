// Where models lie on this machine, and what a name means. Looks at folders; opens no weights.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kapitsa {

/// A folder in the Hugging Face layout: it has a config.json. Or a GGUF file, by its own path: see
/// gguf_models.h.
struct ModelFolder {
    std::string name;  // the folder's own: what requests call the model
    std::string path;
    bool built_in = false;
    std::uint64_t weight_bytes = 0;  // of its safetensors files
};

/// $KAPITSA_MODELS, else $XDG_DATA_HOME/kapitsa/models, else ~/.local/share/kapitsa/models; "" without a
/// home.
std::string models_folder();

/// Half a sentence that says where a model is put to be found by its name.
std::string how_to_add_models();

/// The name is its own: it hides whatever else is called so.
constexpr std::string_view built_in_name = "tiny";

/// The built-in model: <prefix>/share/kapitsa/models/tiny of an installed program, else the one of the
/// checkout in whose build folder the program stands, else of the one that it was built from.
Result<ModelFolder> built_in_model();

/// "" and "tiny" are the built-in model; a path to a folder is that folder; any other name is looked for in
/// models_folder().
Result<ModelFolder> find_model(std::string_view wanted);

/// What an imported model refers to and is not there any more; "" if all is well.
std::string lost_file(const ModelFolder& model);

/// All there is: the built-in model first, then models_folder() by name.
std::vector<ModelFolder> all_models();

}  // namespace kapitsa

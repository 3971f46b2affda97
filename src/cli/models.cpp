#include "cli/models.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>

#include "cli/gguf_models.h"
#include "cli/own_folder.h"

namespace kapitsa {
namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
    const char* value = std::getenv(name);
    return value ? value : "";
}

std::uint64_t weight_bytes(const fs::path& folder) {
    std::uint64_t bytes = 0;
    std::error_code failed;
    for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end;
         entry.increment(failed)) {
        if (entry->path().extension() != ".safetensors") continue;
        std::error_code unknown;
        if (const auto size = entry->file_size(unknown); !unknown) bytes += size;
    }
    return bytes;
}

std::optional<ModelFolder> look_at(const fs::path& folder) {
    std::error_code failed;
    if (!fs::is_regular_file(folder / "config.json", failed)) return gguf_model(folder.string());
    fs::path plain = folder.lexically_normal();
    if (!plain.has_filename()) plain = plain.parent_path();  // "models/tiny/"
    if (plain == "." || plain == ".." || plain.filename() == "..") plain = fs::canonical(folder, failed);
    return ModelFolder{.name = plain.filename().string(),
                       .path = plain.string(),
                       .built_in = false,
                       .weight_bytes = weight_bytes(folder)};
}

/// The folder of the running program; "" where the system does not say.
fs::path program_folder() {
#if defined(__linux__)
    std::error_code failed;
    const fs::path program = fs::read_symlink("/proc/self/exe", failed);
    return failed ? fs::path() : program.parent_path();
#else
    return {};
#endif
}

/// For what somebody took for a model: why it is none, and what one is.
std::unexpected<Error> no_model(const fs::path& path, const std::string& reason) {
    std::error_code failed;
    const fs::path around = path.parent_path();
    const bool inside = !around.empty() && fs::exists(path, failed) && look_at(around);
    return fail(Fault::invalid_input,
                path.string() + " " + reason + ": " +
                    (inside ? "the model is the folder it lies in, -m " + around.string()
                            : "a model is a GGUF file, or a folder with config.json, tokenizer.json and "
                              "model*.safetensors; kapitsa list shows those of this machine"));
}

}  // namespace

std::string models_folder() {
    if (const auto folder = environment("KAPITSA_MODELS"); !folder.empty()) return folder;
    const std::string own = own_folder("XDG_DATA_HOME", ".local/share");
    return own.empty() ? "" : own + "/models";
}

Result<ModelFolder> built_in_model() {
    const fs::path beside = program_folder() / ".." / "share" / "kapitsa" / "models" / built_in_name;
    // Of a checkout that was copied or moved, the program in build/PRESET finds its own.
    const fs::path around = program_folder() / ".." / ".." / "models" / built_in_name;
    const fs::path installed = fs::path(KAPITSA_INSTALL_PREFIX) / "share/kapitsa/models" / built_in_name;
    const fs::path checkout = fs::path(KAPITSA_SOURCE_DIR) / "models" / built_in_name;
    for (const auto& folder : {beside, around, checkout, installed}) {
        auto model = look_at(folder);
        if (!model) continue;
        model->built_in = true;
        return *model;
    }
    return fail(Fault::invalid_input, "the built-in model is not here (looked in " +
                                          beside.lexically_normal().string() + " and " + checkout.string() +
                                          "): name a model folder with --model PATH");
}

std::string how_to_add_models() {
    const std::string folder = models_folder();
    return folder.empty() ? "there is no home folder to keep models in: $KAPITSA_MODELS names another"
                          : "kapitsa import, or a folder under " + folder + ", adds one";
}

Result<ModelFolder> find_model(std::string_view wanted) {
    if (wanted.empty()) return built_in_model();
    const fs::path path(wanted);
    std::error_code failed;
    const fs::file_status status = fs::status(path, failed);
    const bool there = fs::exists(status), is_name = wanted.find('/') == wanted.npos;
    if (fs::is_directory(status)) {
        if (auto model = look_at(path)) return *model;
        if (!is_name) return no_model(path, "has no config.json that can be read");
    }
    if (auto model = there ? gguf_model(path.string()) : std::nullopt) return *model;
    if (is_name && wanted == built_in_name) return built_in_model();
    if (is_name)
        if (auto model = look_at(fs::path(models_folder()) / path)) return *model;
    for (const std::string& file : is_name ? gguf_models_in(models_folder()) : std::vector<std::string>())
        if (gguf_name(file) == wanted)
            if (auto model = gguf_model(file)) return *model;
    if (fs::is_directory(status)) return no_model(path, "has no config.json that can be read");
    if (there) return no_model(path, "is a file and no folder, and does not begin as GGUF files do");
    if (!is_name && failed && status.type() != fs::file_type::not_found)
        return no_model(path, "cannot be looked at (" + failed.message() + ")");
    if (!is_name) return no_model(path, "is not there");
    return fail(Fault::invalid_input, "no model is called " + path.string() +
                                          ": kapitsa list shows what is here, and " + how_to_add_models());
}

std::string lost_file(const ModelFolder& model) {
    std::error_code error;
    if (!fs::is_symlink(fs::symlink_status(model.path, error)) || fs::exists(model.path, error)) return "";
    return fs::read_symlink(model.path, error).string();
}

std::vector<ModelFolder> all_models() {
    std::vector<ModelFolder> models;
    std::error_code failed;
    for (fs::directory_iterator entry(models_folder(), failed), end; !failed && entry != end;
         entry.increment(failed)) {
        std::error_code unknown;
        const bool hidden = entry->path().filename().string().starts_with('.');  // an import under way
        if (hidden || !entry->is_directory(unknown)) continue;
        if (auto model = look_at(entry->path())) models.push_back(std::move(*model));
    }
    for (const std::string& file : gguf_models_in(models_folder()))
        if (auto model = gguf_model(file)) models.push_back(std::move(*model));
    for (ModelFolder& model : models)
        if (model.name == built_in_name) model.name = model.path;
    std::ranges::sort(models, {}, &ModelFolder::name);
    if (auto model = built_in_model()) models.insert(models.begin(), std::move(*model));
    return models;
}

}  // namespace kapitsa

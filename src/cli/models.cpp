#include "cli/models.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>

namespace kapitsa {
namespace {

namespace fs = std::filesystem;

constexpr const char* built_in_name = "tiny";

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
    if (!fs::is_regular_file(folder / "config.json", failed)) return std::nullopt;
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

}  // namespace

std::string models_folder() {
    if (const auto folder = environment("KAPITSA_MODELS"); !folder.empty()) return folder;
    if (const auto data = environment("XDG_DATA_HOME"); !data.empty()) return data + "/kapitsa/models";
    return environment("HOME") + "/.local/share/kapitsa/models";
}

Result<ModelFolder> built_in_model() {
    const fs::path beside = program_folder() / ".." / "share" / "kapitsa" / "models" / built_in_name;
    const fs::path installed = fs::path(KAPITSA_INSTALL_PREFIX) / "share/kapitsa/models" / built_in_name;
    const fs::path checkout = fs::path(KAPITSA_SOURCE_DIR) / "models" / built_in_name;
    for (const auto& folder : {beside, checkout, installed}) {
        auto model = look_at(folder);
        if (!model) continue;
        model->built_in = true;
        return *model;
    }
    return fail(Fault::invalid_input, "the built-in model is not here (looked in " +
                                          beside.lexically_normal().string() + " and " + checkout.string() +
                                          "): name a model folder with --model PATH");
}

Result<ModelFolder> find_model(std::string_view wanted) {
    if (wanted.empty()) return built_in_model();
    const fs::path path(wanted);
    std::error_code failed;
    if (fs::is_directory(path, failed)) {
        if (auto model = look_at(path)) return *model;
        return fail(Fault::invalid_input, path.string() + " is no model folder: it has no config.json");
    }
    if (wanted.find('/') != std::string_view::npos)
        return fail(Fault::invalid_input, path.string() + " is not there; kapitsa list shows what is");
    if (auto model = look_at(fs::path(models_folder()) / path)) return *model;
    if (wanted == built_in_name) return built_in_model();
    return fail(Fault::invalid_input, "no model is called " + path.string() +
                                          ": kapitsa list shows what is here, " + "and a folder under " +
                                          models_folder() + " adds one");
}

std::vector<ModelFolder> all_models() {
    std::vector<ModelFolder> models;
    std::error_code failed;
    for (fs::directory_iterator entry(models_folder(), failed), end; !failed && entry != end;
         entry.increment(failed))
        if (auto model = look_at(entry->path())) models.push_back(std::move(*model));
    std::ranges::sort(models, {}, &ModelFolder::name);
    if (auto model = built_in_model()) models.insert(models.begin(), std::move(*model));
    return models;
}

}  // namespace kapitsa

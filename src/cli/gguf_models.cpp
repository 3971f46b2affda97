#include "cli/gguf_models.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "formats/gguf_checkpoint.h"

namespace kapitsa {
namespace {

namespace fs = std::filesystem;

bool is_vision_tower(const fs::path& file) {
    return file.filename().string().find("mmproj") != std::string::npos;
}

/// The files *.gguf of a folder, in order; links to nothing among them, so that it can be said.
std::vector<fs::path> gguf_files(const fs::path& folder) {
    std::vector<fs::path> files;
    std::error_code failed;
    for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed))
        if (entry->path().extension() == ".gguf") files.push_back(entry->path());
    std::ranges::sort(files);
    return files;
}

std::uint64_t bytes_of(const std::string& file) {
    std::uint64_t bytes = 0;
    for (const std::string& part : gguf_parts(file)) {
        std::error_code unknown;
        if (const auto size = fs::file_size(part, unknown); !unknown) bytes += size;
    }
    return bytes;
}

}  // namespace

std::string gguf_name(const std::string& path) {
    std::string name = fs::path(path).filename().string();
    if (!name.ends_with(".gguf")) return name;
    name.resize(name.size() - 5);
    if (gguf_parts(path).size() > 1) name.resize(name.size() - std::string_view("-00001-of-00003").size());
    return name;
}

std::vector<std::string> gguf_models_in(const std::string& folder) {
    std::vector<std::string> models;
    for (const fs::path& file : gguf_files(folder)) {
        const bool is_first = gguf_parts(file.string()).front() == file.string();
        if (!is_vision_tower(file) && is_first) models.push_back(file.string());
    }
    return models;
}

std::vector<std::string> vision_towers_beside(const std::string& file) {
    std::vector<std::string> towers;
    for (const fs::path& other : gguf_files(fs::absolute(file).parent_path()))
        if (is_vision_tower(other)) towers.push_back(other.string());
    return towers;
}

std::optional<ModelFolder> gguf_model(const std::string& path) {
    std::error_code failed;
    std::string file = path, name;
    if (fs::is_directory(path, failed)) {
        const auto models = gguf_models_in(path);
        if (models.size() != 1) return std::nullopt;
        file = models.front();
        name = fs::canonical(path, failed).filename().string();
    } else {
        if (!fs::is_regular_file(path, failed) || !is_gguf(path)) return std::nullopt;
        name = gguf_name(path);
    }
    return ModelFolder{.name = name, .path = file, .built_in = false, .weight_bytes = bytes_of(file)};
}

}  // namespace kapitsa

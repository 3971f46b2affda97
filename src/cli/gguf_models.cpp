#include "cli/gguf_models.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "formats/gguf_checkpoint.h"

namespace kapitsa {
namespace {

namespace fs = std::filesystem;

bool is_vision_tower(const fs::path& file) {
    std::string name = file.filename().string();
    for (char& c : name)
        if (c >= 'A' && c <= 'Z') c = char(c - 'A' + 'a');
    return name.find("mmproj") != std::string::npos;
}

/// The files *.gguf and *.mmproj of a folder that begin a model or a tower, in order; links to nothing among
/// them, so that it can be said.
std::vector<fs::path> gguf_files(const fs::path& folder) {
    std::vector<fs::path> files;
    std::error_code failed;
    for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end;
         entry.increment(failed)) {
        const std::string path = entry->path().string(), extension = entry->path().extension().string();
        if ((extension == ".gguf" || extension == ".mmproj") && gguf_parts(path).front() == path)
            files.push_back(entry->path());
    }
    std::ranges::sort(files);
    return files;
}

}  // namespace

std::uint64_t gguf_bytes(const std::string& file) {
    std::uint64_t bytes = 0;
    for (const std::string& part : gguf_parts(file)) {
        std::error_code unknown;
        if (const auto size = fs::file_size(part, unknown); !unknown) bytes += size;
    }
    return bytes;
}

std::string gguf_name(const std::string& path) {
    std::string name = fs::path(path).filename().string();
    if (!name.ends_with(".gguf")) return name;
    name.resize(name.size() - 5);
    if (gguf_parts(path).size() > 1) name.resize(name.size() - std::string_view("-00001-of-00003").size());
    return name;
}

std::vector<std::string> gguf_models_in(const std::string& folder) {
    std::vector<std::string> models;
    for (const fs::path& file : gguf_files(folder))
        if (!is_vision_tower(file)) models.push_back(file.string());
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
    return ModelFolder{.name = name, .path = file, .built_in = false, .weight_bytes = gguf_bytes(file)};
}

}  // namespace kapitsa

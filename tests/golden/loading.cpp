#include "golden/loading.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "formats/checkpoint.h"
#include "model/load.h"
#include "support/golden.h"

namespace kapitsa {

std::string why_refused(const std::string& folder) {
    const auto checkpoint = open_checkpoint(folder);
    if (!checkpoint) return checkpoint.error().message;
    const auto runner = load_runner(*checkpoint);
    return runner ? "loaded" : runner.error().message;
}

std::uint64_t least_expert_bytes(const std::string& folder) {
    const auto checkpoint =
        open_checkpoint(folder.starts_with('/') ? folder : KAPITSA_SOURCE_DIR "/" + folder);
    CHECK(checkpoint.has_value());
    std::uint64_t bytes = 1u << 16;
    while (!load_runner(*checkpoint, {.backend = "cpu", .expert_bytes = bytes})) bytes *= 2;
    return bytes;
}

ChangedConfigs::ChangedConfigs(const std::string& golden) : golden_(KAPITSA_SOURCE_DIR "/" + golden) {}

std::string ChangedConfigs::with(const Json& fields) {
    const std::string path = folder_.path() + "/" + std::to_string(written_++);
    std::filesystem::create_directories(path);
    for (const auto& file : std::filesystem::directory_iterator(golden_)) {
        const std::string name = file.path().filename().string();
        if (name.starts_with("model") && name.find(".safetensors") != std::string::npos)
            std::filesystem::copy_file(file.path(), path + "/" + name);
    }
    Json config = read_golden_json(golden_ + "/config.json");
    for (const auto& [key, value] : fields.items()) {
        const bool inside = config.contains("text_config") && !config.contains(key);
        (inside ? config["text_config"] : config)[key] = value;
    }
    std::ofstream(path + "/config.json") << config;
    return path;
}

std::string ChangedConfigs::with(const std::string& key, const Json& value) {
    Json fields;
    fields[key] = value;
    return with(fields);
}

}  // namespace kapitsa

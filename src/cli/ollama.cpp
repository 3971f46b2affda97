#include "cli/ollama.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "formats/in_quotes.h"
#include "formats/regular_file.h"

namespace kapitsa {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view scheme = "ollama:";
constexpr std::string_view model_layer = "application/vnd.ollama.image.model",
                           tower_layer = "application/vnd.ollama.image.projector";
constexpr JsonLimits manifest_limits = {.bytes = 1u << 20, .depth = 8, .members = 256};

fs::path models_root() {
    for (const char* variable : {"OLLAMA_MODELS", "HOME"})
        if (const char* value = std::getenv(variable); value && *value)
            return std::string_view(variable) == "HOME" ? fs::path(value) / ".ollama/models"
                                                        : fs::path(value);
    return {};
}

/// One part of a name: letters, digits and what stands between them; never a way out of a folder.
bool is_plain(std::string_view part) {
    const auto is_allowed = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
               c == '-' || c == '_';
    };
    return !part.empty() && part.front() != '.' && std::ranges::all_of(part, is_allowed);
}

/// "qwen3.5:4b" as .../manifests/registry.ollama.ai/library/qwen3.5/4b; "somebody/name" has its own folder.
Result<fs::path> manifest_of(std::string_view name) {
    std::string_view tag = "latest", owner = "library";
    const std::string shown = in_quotes(name);
    if (const auto colon = name.rfind(':'); colon != name.npos) {
        tag = name.substr(colon + 1);
        name = name.substr(0, colon);
    }
    if (const auto slash = name.find('/'); slash != name.npos) {
        owner = name.substr(0, slash);
        name = name.substr(slash + 1);
    }
    if (!is_plain(owner) || !is_plain(name) || !is_plain(tag))
        return fail(Fault::invalid_input, shown + " is no name of an Ollama model; they look like NAME:TAG");
    return models_root() / "manifests/registry.ollama.ai" / owner / name / tag;
}

/// The digest of the first layer of a kind; "" if there is none.
std::string digest_of(const Json& manifest, std::string_view kind) {
    const auto layers = manifest.find("layers");
    if (!manifest.is_object() || layers == manifest.end() || !layers->is_array()) return "";
    for (const Json& layer : *layers) {
        const auto text = [&](const char* key) {
            const auto found = layer.is_object() ? layer.find(key) : layer.end();
            return found != layer.end() && found->is_string() ? found->get<std::string>() : "";
        };
        if (text("mediaType") != kind) continue;
        std::string digest = text("digest");
        if (digest.starts_with("sha256:") && is_plain(digest.substr(7))) return digest.substr(7);
    }
    return "";
}

Result<Json> read_manifest(const fs::path& manifest) {
    auto json = parse_json(TRY(read_text_file(manifest.string(), manifest_limits.bytes)), manifest_limits);
    if (!json) return fail(Error(json.error()).because(manifest.string()));
    return json;
}

}  // namespace

bool names_ollama_model(const std::string& wanted) {
    return wanted.starts_with(scheme) || wanted.find("/manifests/") != wanted.npos;
}

Result<OllamaModel> find_ollama_model(const std::string& wanted) {
    const bool is_name = wanted.starts_with(scheme);
    const fs::path manifest = is_name ? TRY(manifest_of(wanted.substr(scheme.size()))) : fs::path(wanted);
    std::error_code failed;
    if (is_name && !fs::exists(manifest, failed))
        return fail(Fault::invalid_input, "Ollama has no model " + in_quotes(wanted.substr(scheme.size())) +
                                              " here (there is no " + manifest.string() +
                                              "): ollama list shows what it has");
    const Json layers = TRY(read_manifest(manifest));
    const std::string digest = digest_of(layers, model_layer), tower = digest_of(layers, tower_layer);
    if (digest.empty())
        return fail(Fault::corrupt_file,
                    manifest.string() + " is no manifest of Ollama: no layer is a model");
    fs::path root = models_root();
    if (!is_name)
        for (fs::path above = fs::absolute(manifest); above.has_relative_path(); above = above.parent_path())
            if (above.filename() == "manifests") root = above.parent_path();
    OllamaModel model;
    model.name = manifest.parent_path().filename().string();
    if (manifest.filename() != "latest") model.name += "-" + manifest.filename().string();
    model.blob = (root / "blobs" / ("sha256-" + digest)).string();
    if (!tower.empty()) model.tower = (root / "blobs" / ("sha256-" + tower)).string();
    return model;
}

}  // namespace kapitsa

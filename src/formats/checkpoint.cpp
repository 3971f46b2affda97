#include "formats/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/utf8.h"
#include "formats/gguf_tokenizer.h"
#include "formats/in_quotes.h"
#include "formats/python_json.h"
#include "formats/regular_file.h"
#include "formats/safetensors.h"

namespace kapitsa {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t mebibyte = 1u << 20;
constexpr JsonLimits config_limits = {.bytes = 16 * mebibyte, .depth = 64, .members = 1u << 16};
constexpr JsonLimits index_limits = {.bytes = 64 * mebibyte, .depth = 8, .members = 1u << 20};
constexpr std::uint64_t tokenizer_bytes_max = 256 * mebibyte;
constexpr std::uint64_t template_bytes_max = 4 * mebibyte;

constexpr const char* index_name = "model.safetensors.index.json";
constexpr const char* folder_holds =
    "; a model folder holds config.json, tokenizer.json and model*.safetensors";

std::string inside(const std::string& folder, std::string_view name) {
    return folder + "/" + std::string(name);
}

/// Whether a folder has such an entry. A link to nothing counts: opening it will say what is wrong.
bool present(const std::string& path) {
    std::error_code ignored;
    return fs::exists(fs::symlink_status(path, ignored));
}

Status check_folder(const std::string& folder) {
    std::error_code error;
    const fs::file_status status = fs::status(folder, error);
    if (status.type() == fs::file_type::not_found)
        return fail(Fault::invalid_input, "there is no folder " + folder + folder_holds);
    if (error) return fail(Fault::invalid_input, folder + ": " + error.message());
    if (!fs::is_directory(status))
        return fail(Fault::invalid_input, folder + " is not a folder" + folder_holds);
    if (!present(inside(folder, "config.json")))
        return fail(Fault::invalid_input, folder + " has no config.json" + folder_holds);
    return Done{};
}

Result<Json> read_object(const std::string& path, const JsonLimits& limits) {
    const std::string text = without_python_words(TRY(read_text_file(path, limits.bytes)));
    Result<Json> json = parse_json(text, limits);
    if (!json) return fail(Fault::corrupt_file, path + ": " + json.error().message);
    if (!json->is_object()) return fail(Fault::corrupt_file, path + " is not a JSON object");
    return json;
}

/// A document that a folder may lack: then null.
Result<std::shared_ptr<const Json>> read_optional_object(const std::string& path) {
    if (!present(path)) return nullptr;
    return std::make_shared<const Json>(TRY(read_object(path, config_limits)));
}

/// The template of tokenizer_config.json: a string, or a list of named ones of which "default" is taken.
Result<std::string> template_of(const Json& tokenizer_config) {
    const auto found = tokenizer_config.find("chat_template");
    if (found == tokenizer_config.end() || found->is_null()) return "";
    if (found->is_string()) return found->get_ref<const std::string&>();
    if (!found->is_array())
        return fail(Fault::corrupt_file, "chat_template is neither a string nor a list of named templates");
    for (const Json& entry : *found) {
        const auto text = [&](const char* key) {
            const auto value = entry.is_object() ? entry.find(key) : entry.end();
            return value != entry.end() && value->is_string() ? &value->get_ref<const std::string&>()
                                                              : nullptr;
        };
        const std::string *name = text("name"), *body = text("template");
        if (!name || !body)
            return fail(Fault::corrupt_file, "chat_template has an entry without name and template");
        if (*name == "default") return *body;
    }
    return fail(Fault::unsupported, "chat_template has no entry named \"default\"");
}

Result<std::string> read_chat_template(const std::string& folder, const Json* tokenizer_config) {
    const std::string path = inside(folder, "chat_template.jinja");
    if (present(path)) {
        std::string text = TRY(read_text_file(path, template_bytes_max));
        if (!is_utf8(text)) return fail(Fault::corrupt_file, path + " is not UTF-8");
        return text;
    }
    if (!tokenizer_config) return "";
    Result<std::string> text = template_of(*tokenizer_config);
    if (!text) return fail(std::move(text.error()).because(inside(folder, "tokenizer_config.json")));
    return text;
}

bool names_weights(std::string_view name) { return name.ends_with(".safetensors"); }

/// Each shard, and the tensors that the index says it holds.
using Shards = std::map<std::string, std::set<std::string>>;

Result<Shards> read_index(const std::string& path) {
    const Json index = TRY(read_object(path, index_limits));
    const auto weights = index.find("weight_map");
    if (weights == index.end() || !weights->is_object() || weights->empty())
        return fail(Fault::corrupt_file, path + ": weight_map is missing, empty, or not an object");
    Shards shards;
    for (const auto& [tensor, file] : weights->items()) {
        const std::string where = path + ": weight_map of " + in_quotes(tensor);
        if (!file.is_string()) return fail(Fault::corrupt_file, where + " is not a string");
        const std::string& name = file.get_ref<const std::string&>();
        // The name of a file in this folder, and nothing that could lead out of it.
        if (name.find_first_of(std::string_view("/\\\0", 3)) != name.npos || name.find("..") != name.npos ||
            !names_weights(name))
            return fail(Fault::corrupt_file, where + " is " + in_quotes(name) +
                                                 ", not the name of a safetensors file in the same folder");
        shards[name].insert(tensor);
    }
    return shards;
}

/// Without an index: model*.safetensors, none of which must hold anything in particular.
Result<Shards> find_shards(const std::string& folder) {
    Shards shards;
    std::error_code error;
    fs::directory_iterator entry(folder, error);
    for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
        const std::string name = entry->path().filename().string();
        if (name.starts_with("model") && names_weights(name)) shards[name];
    }
    if (error) return fail(Fault::invalid_input, folder + ": " + error.message());
    if (shards.empty())
        return fail(Fault::invalid_input, folder + " has no model*.safetensors" + folder_holds);
    return shards;
}

// A module that drafts (MTP) may lie beside the model, whose index does not know it. Source: what those who
// convert models publish.
constexpr const char* sidecars[] = {"mtp.safetensors", "model-mtp.safetensors", "mtp/weights.safetensors",
                                    "optiq/mtp.safetensors"};

/// Some name its tensors within the module alone.
void name_as_drafter(std::vector<TensorEntry>& tensors) {
    const auto is_whole = [](const TensorEntry& tensor) {
        return tensor.name.starts_with("mtp.") || tensor.name.starts_with("language_model.");
    };
    if (std::ranges::none_of(tensors, is_whole))
        for (TensorEntry& tensor : tensors) tensor.name.insert(0, "mtp.");
}

Status add_shard(Checkpoint& checkpoint, const std::string& name, std::set<std::string> missing) {
    const std::string path = inside(checkpoint.path, name);
    checkpoint.files.push_back(TRY(MappedFile::open(path)));
    Result<std::vector<TensorEntry>> tensors = read_safetensors(checkpoint.files.back().bytes());
    if (!tensors) return fail(std::move(tensors.error()).because(path));
    if (std::ranges::find(sidecars, name) != std::end(sidecars)) name_as_drafter(*tensors);
    for (TensorEntry& tensor : *tensors) {
        missing.erase(tensor.name);
        const auto [place, fresh] = checkpoint.tensors.try_emplace(tensor.name);
        if (!fresh)
            return fail(Fault::corrupt_file, path + ": tensor " + in_quotes(tensor.name) +
                                                 " stands in another file of the model as well");
        place->second = std::move(tensor);
    }
    if (!missing.empty())
        return fail(Fault::corrupt_file, path + " lacks tensor " + in_quotes(*missing.begin()) + ", which " +
                                             index_name + " says it holds");
    return Done{};
}

Status add_weights(Checkpoint& checkpoint) {
    const std::string index = inside(checkpoint.path, index_name);
    Shards shards = present(index) ? TRY(read_index(index)) : TRY(find_shards(checkpoint.path));
    for (const char* sidecar : sidecars)
        if (present(inside(checkpoint.path, sidecar))) shards[sidecar];
    checkpoint.files.reserve(shards.size());
    for (const auto& [name, tensors] : shards) TRY(add_shard(checkpoint, name, tensors));
    if (checkpoint.tensors.empty())
        return fail(Fault::corrupt_file, checkpoint.path + ": its safetensors files hold no tensor");
    return Done{};
}

}  // namespace

std::uint64_t Checkpoint::weight_bytes() const {
    std::uint64_t bytes = 0;
    for (const auto& [name, tensor] : tensors) bytes += tensor.bytes.size();
    return bytes;
}

Result<TokenizerDescription> Checkpoint::tokenizer() const {
    if (gguf) return read_gguf_tokenizer(*gguf);
    const std::string file = inside(path, "tokenizer.json");
    if (!present(file)) return fail(Fault::invalid_input, path + " has no tokenizer.json" + folder_holds);
    auto description = read_tokenizer_json(TRY(read_text_file(file, tokenizer_bytes_max)));
    if (!description) return fail(std::move(description.error()).because(file));
    return description;
}

std::string Checkpoint::token_text(std::string_view name) const {
    if (!tokenizer_config) return "";
    auto token = tokenizer_config->find(name);
    if (token == tokenizer_config->end()) return "";
    if (token->is_object()) {
        const auto content = token->find("content");
        return content != token->end() && content->is_string() ? content->get<std::string>() : "";
    }
    return token->is_string() ? token->get<std::string>() : "";
}

Result<Checkpoint> open_checkpoint(const std::string& folder) {
    TRY(check_folder(folder));
    Checkpoint checkpoint;
    checkpoint.path = folder;
    checkpoint.config =
        std::make_shared<const Json>(TRY(read_object(inside(folder, "config.json"), config_limits)));
    checkpoint.generation_config = TRY(read_optional_object(inside(folder, "generation_config.json")));
    checkpoint.hf_quant_config = TRY(read_optional_object(inside(folder, "hf_quant_config.json")));
    checkpoint.tokenizer_config = TRY(read_optional_object(inside(folder, "tokenizer_config.json")));
    checkpoint.chat_template = TRY(read_chat_template(folder, checkpoint.tokenizer_config.get()));
    TRY(add_weights(checkpoint));
    return checkpoint;
}

}  // namespace kapitsa

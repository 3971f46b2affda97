#include "formats/gguf_checkpoint.h"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "base/utf8.h"
#include "formats/config_reader.h"
#include "formats/gguf.h"
#include "formats/gguf_tokenizer.h"
#include "formats/in_quotes.h"
#include "formats/regular_file.h"

namespace kapitsa {
namespace {

constexpr std::uint32_t parts_max = 10'000;
constexpr std::size_t template_bytes_max = 4u << 20;

/// "NAME-00002-of-00003.gguf" as NAME, 2 and 3; nothing for other names.
struct PartName {
    std::string stem;
    std::uint32_t number, count;
};
std::optional<PartName> part_name(const std::string& path) {
    constexpr std::string_view shape = "-00000-of-00000.gguf";
    if (path.size() <= shape.size()) return std::nullopt;
    const std::string tail = path.substr(path.size() - shape.size());
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    for (std::size_t i = 0; i < shape.size(); ++i)
        if (shape[i] == '0' ? !is_digit(tail[i]) : tail[i] != shape[i]) return std::nullopt;
    const auto number = static_cast<std::uint32_t>(std::stoul(tail.substr(1, 5)));
    const auto count = static_cast<std::uint32_t>(std::stoul(tail.substr(10, 5)));
    if (number < 1 || number > count || count > parts_max) return std::nullopt;
    return PartName{path.substr(0, path.size() - shape.size()), number, count};
}

std::string part_tail(std::uint32_t number, std::uint32_t count) {
    char tail[32];
    std::snprintf(tail, sizeof tail, "-%05u-of-%05u.gguf", number, count);
    return tail;
}

/// What a part says of the whole.
struct Split {
    std::uint32_t number = 0, count = 1, tensors = 0;
};
Result<Split> split_of(const Gguf& gguf) {
    const Json settings = settings_of(gguf);
    const ConfigReader metadata(settings, "metadata");
    Split split;
    split.count = TRY(metadata.number_or("split.count", 1, {0, parts_max}));
    split.number = TRY(metadata.number_or("split.no", 0, {0, parts_max}));
    split.tensors = TRY(metadata.number_or("split.tensors.count", 0, {0, 1u << 30}));
    return split;
}

Status add_part(Checkpoint& checkpoint, Gguf& gguf, const std::string& path) {
    for (TensorEntry& tensor : gguf.tensors) {
        const auto [place, fresh] = checkpoint.tensors.try_emplace(tensor.name);
        if (!fresh)
            return fail(Fault::corrupt_file, path + ": tensor " + in_quotes(tensor.name) +
                                                 " stands in another part of the model as well");
        place->second = std::move(tensor);
    }
    gguf.tensors.clear();
    return Done{};
}

Status check_part(const Split& split, std::uint32_t number, std::size_t parts) {
    if (split.count <= 1 && parts == 1) return Done{};
    if (split.count <= 1)
        return fail(Fault::corrupt_file, "its name says that it is one part of " + std::to_string(parts) +
                                             ", its metadata (split.count) that it is whole");
    if (split.count != parts)
        return fail(Fault::corrupt_file, "metadata \"split.count\" says that it is one of " +
                                             std::to_string(split.count) +
                                             " parts; its name must say so, too (NAME" +
                                             part_tail(1, split.count) + "), and the others lie beside it");
    if (split.number != number)
        return fail(Fault::corrupt_file, "metadata \"split.no\" is " + std::to_string(split.number) +
                                             "; by its name it must be " + std::to_string(number));
    return Done{};
}

Status open_parts(Checkpoint& checkpoint, const std::vector<std::string>& paths) {
    checkpoint.files.reserve(paths.size());
    Split first;
    for (std::uint32_t i = 0; i < paths.size(); ++i) {
        auto file = MappedFile::open(paths[i]);
        if (!file && paths.size() > 1)
            return fail(file.error().fault, file.error().message + "; the model has " +
                                                std::to_string(paths.size()) +
                                                " parts, which lie together in one folder");
        checkpoint.files.push_back(TRY(std::move(file)));
        const auto opened = [&]() -> Status {
            auto gguf = std::make_shared<Gguf>(TRY(read_gguf(checkpoint.files.back().bytes())));
            const Split split = TRY(split_of(*gguf));
            TRY(check_part(split, i, paths.size()));
            TRY(add_part(checkpoint, *gguf, paths[i]));
            if (i > 0) return Done{};
            first = split;
            checkpoint.gguf = std::move(gguf);
            return Done{};
        }();
        if (!opened) return fail(Error(opened.error()).because(paths[i]));
    }
    if (first.tensors != 0 && first.tensors != checkpoint.tensors.size())
        return fail(Fault::corrupt_file, paths[0] + ": metadata \"split.tensors.count\" is " +
                                             std::to_string(first.tensors) + "; the parts hold " +
                                             std::to_string(checkpoint.tensors.size()) + " tensors");
    return Done{};
}

Result<Json> generation_config_of(const Gguf& gguf, const Json& settings) {
    Json config = Json::object();
    std::set<Token> ends;
    for (const char* name : {"eos", "eot", "eom"})
        if (const auto token = TRY(gguf_token(gguf, name))) ends.insert(*token);
    if (!ends.empty()) config["eos_token_id"] = ends;
    constexpr std::array<std::array<const char*, 2>, 5> sampling{{{"temp", "temperature"},
                                                                  {"top_k", "top_k"},
                                                                  {"top_p", "top_p"},
                                                                  {"min_p", "min_p"},
                                                                  {"penalty_repeat", "repetition_penalty"}}};
    for (const auto& [theirs, ours] : sampling)
        if (const auto found = settings.find(std::string("general.sampling.") + theirs);
            found != settings.end())
            config[ours] = *found;
    return config;
}

Result<Json> tokenizer_config_of(const Gguf& gguf) {
    Json config = Json::object();
    for (const char* name : {"bos", "eos"})
        if (const auto token = TRY(gguf_token(gguf, name)))
            config[std::string(name) + "_token"] = gguf_token_text(gguf, *token);
    return config;
}

/// The words around the model, where a Checkpoint has them.
Status add_words(Checkpoint& checkpoint) {
    const Gguf& gguf = *checkpoint.gguf;
    auto settings = std::make_shared<Json>(settings_of(gguf));
    checkpoint.generation_config = std::make_shared<const Json>(TRY(generation_config_of(gguf, *settings)));
    checkpoint.tokenizer_config = std::make_shared<const Json>(TRY(tokenizer_config_of(gguf)));
    checkpoint.config = std::move(settings);
    const std::string_view chat_template = gguf.text("tokenizer.chat_template");
    if (chat_template.size() > template_bytes_max || !is_utf8(chat_template))
        return fail(Fault::corrupt_file,
                    "metadata \"tokenizer.chat_template\" is not UTF-8, or longer than 4 MiB");
    checkpoint.chat_template = chat_template;
    return Done{};
}

enum class Kind : std::uint8_t { model, tower };

Status check_kind(const Checkpoint& checkpoint, Kind kind) {
    const std::string_view architecture = checkpoint.gguf->text("general.architecture");
    if (architecture.empty())
        return fail(Fault::corrupt_file, "metadata \"general.architecture\" is missing, or not a text");
    const bool is_tower = architecture == "clip";
    if (is_tower && kind == Kind::model)
        return fail(
            Fault::unsupported,
            "this is a vision tower (mmproj), no model of its own: name the model that it belongs to, "
            "which finds it in its folder, or takes it by --mmproj");
    if (!is_tower && kind == Kind::tower)
        return fail(Fault::invalid_input,
                    "this is no vision tower (mmproj): metadata "
                    "\"general.architecture\" is " +
                        in_quotes(architecture) + ", and a tower's is \"clip\"");
    if (checkpoint.tensors.empty())
        return fail(Fault::corrupt_file, "it holds no tensors: a vocabulary alone, or a first part");
    return Done{};
}

Result<Checkpoint> open_kind(const std::string& path, Kind kind) {
    Checkpoint checkpoint;
    checkpoint.path = path;
    const auto paths = gguf_parts(path);
    TRY(open_parts(checkpoint, paths));
    const auto described = [&]() -> Status {
        TRY(check_kind(checkpoint, kind));
        return add_words(checkpoint);
    }();
    if (!described) return fail(Error(described.error()).because(paths[0]));
    return checkpoint;
}

}  // namespace

bool is_gguf(const std::string& path) {
    const auto file = RegularFile::open(path);
    char magic[4] = {};
    return file && ::pread(file->descriptor(), magic, sizeof magic, 0) == sizeof magic &&
           std::string_view(magic, sizeof magic) == "GGUF";
}

std::vector<std::string> gguf_parts(const std::string& path) {
    const auto part = part_name(path);
    if (!part) return {path};
    std::vector<std::string> paths;
    for (std::uint32_t i = 1; i <= part->count; ++i) paths.push_back(part->stem + part_tail(i, part->count));
    return paths;
}

Result<Checkpoint> open_gguf(const std::string& path) { return open_kind(path, Kind::model); }

Result<Checkpoint> open_gguf_tower(const std::string& path) {
    if (RegularFile::open(path) && !is_gguf(path))
        return fail(Fault::invalid_input, path + " is no GGUF file: it does not begin with \"GGUF\"");
    return open_kind(path, Kind::tower);
}

}  // namespace kapitsa

// Reads folders of goldens: see check/golden.h.
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "check/golden.h"
#include "formats/regular_file.h"

namespace kapitsa {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t json_bytes = 64u << 20;
constexpr std::size_t tokens_most = 1u << 20;

/// The file of arrays in a folder, or the path itself.
Result<std::string> find_arrays(const std::string& path) {
    std::error_code failed;
    if (!fs::is_directory(path, failed)) {
        if (fs::is_regular_file(path, failed)) return path;
        return fail(Fault::invalid_input, path + " is no folder of goldens, and no file of them");
    }
    std::vector<std::string> found;
    for (fs::directory_iterator entry(path, failed), end; !failed && entry != end; entry.increment(failed)) {
        const std::string name = entry->path().filename().string();
        if (name == "golden.safetensors" || (name.starts_with("goldens") && name.ends_with(".safetensors")))
            found.push_back(entry->path().string());
    }
    std::ranges::sort(found);
    if (found.size() == 1) return found.front();
    if (found.empty())
        return fail(Fault::invalid_input,
                    path + " holds no goldens: neither golden.safetensors nor goldens*.safetensors");
    return fail(Fault::invalid_input, path + " holds goldens of several forms: name one of its files, " +
                                          found.front() + " or " + found.back());
}

/// "p7" and the like: a prompt named by its length.
bool is_length(std::string_view name) {
    return name.size() > 1 && name.front() == 'p' &&
           name.substr(1).find_first_not_of("0123456789") == name.npos;
}

/// How goldens call the run with the settings of this config.json, where a model may run its layers in
/// several ways: "per_loop.l2".
std::string run_name(const Json& config) {
    const auto loops = config.find("n_recurrent_loops"), mode = config.find("recurrent_kv_cache_mode");
    if (loops == config.end() || !loops->is_number_integer()) return "";
    const bool said = mode != config.end() && mode->is_string();
    return (said ? mode->get<std::string>() : "per_loop") + ".l" + std::to_string(loops->get<std::int64_t>());
}

class GoldenReader {
public:
    GoldenReader(const ArrayFile& arrays, const Json& said, std::string run)
        : arrays_(arrays), said_(said), run_(std::move(run)) {}

    Result<Goldens> read() {
        Goldens goldens;
        for (const std::string& name : arrays_.names())
            for (const char* end : {".logits", ".logits_fp32"})
                if (name.ends_with(end)) {
                    const std::string stem = name.substr(0, name.size() - std::string_view(end).size());
                    if (!is_ours(stem)) continue;
                    GoldenCase golden = TRY(read_case(stem, name));
                    if (golden.ids.empty())  // of something else than a prompt: a tree of drafts
                        used_.erase(name);
                    else
                        goldens.cases.push_back(std::move(golden));
                }
        for (const std::string& name : arrays_.names())
            if (!used_.contains(name)) goldens.passed_over.push_back(name);
        return goldens;
    }

private:
    static std::string first_part(const std::string& stem) { return stem.substr(0, stem.find('.')); }
    static std::string last_part(const std::string& stem) { return stem.substr(stem.rfind('.') + 1); }

    /// A prompt by its length alone, or with the run that is wanted; or a named one: "mlx4.hello". What has
    /// parents is no prompt but a tree, and what has pixels needs the image to be shown.
    bool is_ours(const std::string& stem) const {
        if (arrays_.has(stem + ".parents") || arrays_.has(stem + ".pixel_values")) return false;
        const std::string first = first_part(stem);
        if (!is_length(first)) return true;
        return stem == first || stem == first + "." + run_;
    }

    Result<GoldenCase> read_case(const std::string& stem, const std::string& logits) {
        GoldenCase golden;
        golden.name = stem;
        golden.ids =
            TRY(tokens({stem + ".ids", stem + ".input_ids", first_part(stem) + ".ids"}, stem, "ids"));
        golden.greedy_name = arrays_.has(stem + ".greedy") ? stem + ".greedy" : stem + ": greedy answer";
        golden.greedy = TRY(tokens({stem + ".greedy"}, stem, "greedy_ids"));
        if (golden.greedy.empty()) golden.greedy = TRY(said_tokens(stem, "greedy"));
        golden.logits.push_back({logits, TRY(take(logits))});
        for (const char* end : {".hidden", ".hidden_fp32"}) {
            if (!arrays_.has(stem + end)) continue;
            golden.hidden = GoldenArray{stem + end, TRY(take(stem + end))};
            golden.begins_with_embeddings = std::string_view(end) == ".hidden";
        }
        return golden;
    }

    Result<Array<float>> take(const std::string& name) {
        used_.insert(name);
        return arrays_.floats(name);
    }

    /// From the first of these arrays that is there, else from the JSON.
    Result<std::vector<Token>> tokens(const std::vector<std::string>& names, const std::string& stem,
                                      const char* key) {
        for (const std::string& name : names) {
            if (!arrays_.has(name)) continue;
            used_.insert(name);
            const Array<std::int64_t> ids = TRY(arrays_.ints(name));
            std::vector<Token> all;
            for (const std::int64_t id : ids.values) all.push_back(TRY(token(id, name)));
            return all;
        }
        return said_tokens(stem, key);
    }

    /// {"hello": {"ids": [...]}} of named prompts, {"prompts": {"7": {"greedy": [...]}}} of those by length.
    Result<std::vector<Token>> said_tokens(const std::string& stem, const char* key) const {
        const Json* place = &said_;
        std::vector<std::string> path{last_part(stem), key};
        if (is_length(first_part(stem))) path = {"prompts", first_part(stem).substr(1), key};
        for (const std::string& part : path) {
            if (!place->is_object() || !place->contains(part)) return std::vector<Token>();
            place = &(*place)[part];
        }
        std::vector<Token> all;
        if (!place->is_array() || place->size() > tokens_most)
            return fail(Fault::corrupt_file, stem + ": " + key + " is no list of tokens");
        for (const Json& id : *place) {
            if (!id.is_number_integer())
                return fail(Fault::corrupt_file, stem + ": " + key + " holds what is no token");
            all.push_back(TRY(token(id.get<std::int64_t>(), stem)));
        }
        return all;
    }

    static Result<Token> token(std::int64_t id, const std::string& where) {
        if (id < 0 || id > INT32_MAX)
            return fail(Fault::corrupt_file, where + " holds " + std::to_string(id) + ", which is no token");
        return static_cast<Token>(id);
    }

    const ArrayFile& arrays_;
    const Json& said_;
    std::string run_;
    std::set<std::string> used_;
};

/// Logits of the same prompts in f64, where a file beside the goldens has them.
Status add_wide_logits(const fs::path& path, Goldens& goldens) {
    std::error_code failed;
    if (!fs::is_regular_file(path, failed)) return Done{};
    const ArrayFile arrays = TRY(ArrayFile::open(path.string()));
    for (GoldenCase& golden : goldens.cases)
        for (const char* end : {".logits_fp64", ".logits"})
            if (const std::string name = golden.name + end; arrays.has(name))
                golden.logits.push_back({path.filename().string() + ": " + name, TRY(arrays.floats(name))});
    return Done{};
}

}  // namespace

Result<Goldens> read_goldens(const std::string& path, const Json& config) {
    const fs::path file = TRY(find_arrays(path));
    const ArrayFile arrays = TRY(ArrayFile::open(file.string()));
    Json said = Json::object();
    const std::string json = fs::path(file).replace_extension(".json").string();
    std::error_code failed;
    if (fs::is_regular_file(json, failed)) {
        auto parsed = parse_json(TRY(read_text_file(json, json_bytes)), {.bytes = json_bytes});
        if (!parsed) return fail(std::move(parsed.error()).because(json));
        said = std::move(*parsed);
    }
    auto goldens = GoldenReader(arrays, said, run_name(config)).read();
    if (!goldens) return fail(std::move(goldens.error()).because(file.string()));
    TRY(add_wide_logits(file.parent_path() / "logits_f64.safetensors", *goldens));
    if (goldens->cases.empty())
        return fail(Fault::corrupt_file,
                    file.string() + " holds no logits of this model beside the ids of their prompts");
    return std::move(*goldens);
}

}  // namespace kapitsa

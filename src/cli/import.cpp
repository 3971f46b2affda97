// `kapitsa import` and `kapitsa rm`: models that other programs have downloaded, found again by name.
#include <fmt/format.h>

#include <filesystem>
#include <map>

#include "chat/chat_template.h"
#include "cli/command.h"
#include "cli/gguf_models.h"
#include "cli/load.h"
#include "cli/ollama.h"
#include "cli/output.h"
#include "cli/speaker.h"
#include "cli/store.h"
#include "cli/towers.h"
#include "formats/gguf_checkpoint.h"
#include "model/gguf_dialect.h"
#include "model/gguf_tower.h"
#include "model/load.h"
#include "text/tokenizer.h"

namespace kapitsa {
namespace {

namespace fs = std::filesystem;

struct Options {
    std::vector<std::string> paths;  // of the model, and of its vision tower
    std::string name, mmproj;
    bool copy = false;
};

struct Source {
    std::string file, name;
    std::vector<std::string> towers;  // that may be its own
};

/// The GGUF file that a path leads to, and what to call it.
Result<Source> find_source(const std::string& path) {
    if (names_ollama_model(path)) {
        const OllamaModel model = TRY(find_ollama_model(path));
        std::vector<std::string> towers;
        if (!model.tower.empty()) towers.push_back(model.tower);
        return Source{model.blob, model.name, towers};
    }
    std::error_code failed;
    if (!fs::exists(path, failed))
        return fail(Fault::invalid_input,
                    path + (failed ? " cannot be looked at (" + failed.message() + ")" : " is not there") +
                        ": kapitsa import takes a GGUF file, a folder with one, or ollama:NAME");
    if (!fs::is_directory(path, failed)) return Source{path, gguf_name(path), vision_towers_beside(path)};
    const auto models = gguf_models_in(path);
    if (models.size() == 1)
        return Source{models.front(), gguf_name(models.front()), vision_towers_beside(models.front())};
    if (models.empty()) return fail(Fault::invalid_input, path + " has no GGUF file");
    std::string names;
    for (const std::string& model : models) names += "\n  " + model;
    return fail(Fault::invalid_input, path + " has several models; name one of them:" + names);
}

/// "Q4_K 70 %, Q6_K 25 %, F32 5 %": types by their share of the bytes, the largest first.
std::string type_shares(const Checkpoint& checkpoint) {
    std::map<std::string, std::uint64_t> bytes;
    for (const auto& [name, tensor] : checkpoint.tensors)
        bytes[element_name(tensor.type)] += tensor.bytes.size();
    std::multimap<std::uint64_t, std::string, std::greater<>> by_share;
    for (const auto& [type, size] : bytes) by_share.emplace(size, type);
    const double all = double(checkpoint.weight_bytes());
    std::string text;
    for (const auto& [size, type] : by_share)
        text += fmt::format("{}{} {:.0f} %", text.empty() ? "" : ", ", type, 100 * double(size) / all);
    return text;
}

std::string parameters_text(const Checkpoint& checkpoint) {
    std::uint64_t count = 0;
    for (const auto& [name, tensor] : checkpoint.tensors) {
        const ElementForm form = element_form(tensor.type);
        count += tensor.bytes.size() / form.bytes * form.values;
    }
    return count < 1'000'000'000 ? fmt::format("{:.1f} million parameters", double(count) / 1e6)
                                 : fmt::format("{:.2f} billion parameters", double(count) / 1e9);
}

/// Opens all of the model that can be opened without computing: tensors by name and shape, tokenizer,
/// template.
Result<ModelCost> check(const Checkpoint& checkpoint) {
    const ModelCost cost = TRY(weigh_model(checkpoint));
    TRY(Tokenizer::make(TRY(checkpoint.tokenizer())));
    if (!checkpoint.chat_template.empty()) TRY(ChatTemplate::parse(checkpoint.chat_template));
    return cost;
}

std::string report(const Checkpoint& checkpoint, const ModelCost& cost) {
    const std::string_view title = checkpoint.gguf->text("general.name");
    std::string text = fmt::format("  {}{}, {}, {}\n", title.empty() ? "" : std::string(title) + ": ",
                                   checkpoint.gguf->text("general.architecture"), parameters_text(checkpoint),
                                   type_shares(checkpoint));
    text += fmt::format("  in memory: {:.1f} MB of weights, {:.2f} MB for every 1000 tokens of context",
                        double(cost.weight_bytes) / 1e6, double(cost.token_bytes) * 1000 / 1e6);
    if (cost.sequence_bytes > 0)
        text += fmt::format(", {:.1f} MB for each request at once", double(cost.sequence_bytes) / 1e6);
    text += fmt::format(
        "\n  context: up to {} tokens; {}\n", cost.context,
        checkpoint.chat_template.empty() ? "no chat template: it completes text" : "with a chat template");
    return text;
}

/// The model's vision tower, if there is one that it can be shown images by, and what is said of it.
struct Tower {
    std::string path, report;
};

/// Makes it a part of the model, and looks at it as loading would.
Result<Tower> take_tower(Checkpoint& model, TowerChoice choice) {
    Tower tower;
    tower.path = choice.tower->path;
    tower.report = fmt::format(
        "  images: shown by {}, {}, {:.1f} MB{}\n", tower.path, type_shares(*choice.tower),
        double(choice.tower->weight_bytes()) / 1e6,
        choice.fitting > 1 ? fmt::format(" ({} would fit: --mmproj names another)", choice.fitting) : "");
    TRY(add_tower(model, std::move(*choice.tower)));
    const auto weighed = weigh_model(model);
    if (!weighed) return fail(Error(weighed.error()).because(tower.path));
    return tower;
}

/// A tower that is named must fit; one that lies there is left where it does not.
Result<Tower> find_tower(Checkpoint& model, const Source& source, const std::string& wanted) {
    TowerChoice choice =
        wanted.empty() ? choose_tower(model, source.towers) : TRY(choose_tower(model, wanted));
    std::string refused = choice.refused;
    if (choice.tower) {
        auto tower = take_tower(model, std::move(choice));
        if (tower || !wanted.empty()) return tower;
        refused = tower.error().message;
    }
    return Tower{"", refused.empty() ? "" : "  images: not shown any: " + refused + "\n"};
}

Result<std::string> wanted_tower(const Options& options) {
    if (options.paths.empty() || options.paths.size() > 2)
        return fail(
            Fault::invalid_input,
            "kapitsa import needs a GGUF file, a folder with one, or ollama:NAME, and takes a vision tower "
            "(mmproj) behind it; names with blanks stand in quotes");
    if (options.paths.size() == 2 && !options.mmproj.empty())
        return fail(Fault::invalid_input, "--mmproj " + options.mmproj + " and " + options.paths[1] +
                                              " are two vision towers: give one of them");
    return options.paths.size() == 2 ? options.paths[1] : options.mmproj;
}

Status import_model(const Options& options) {
    const std::string wanted = TRY(wanted_tower(options));
    const Source source = TRY(find_source(options.paths[0]));
    auto opened = open_model(source.file);
    if (!opened) return fail(explained(opened.error(), source.file));
    Checkpoint& checkpoint = *opened;
    if (!checkpoint.gguf)
        return fail(Fault::invalid_input, source.file + " is a model folder; -m takes it as it is");
    const auto cost = check(checkpoint);
    if (!cost) return fail(explained(cost.error(), source.file));
    std::string said = report(checkpoint, *cost);
    const Tower tower = TRY(find_tower(checkpoint, source, wanted));
    const std::string name = options.name.empty() ? store_name(source.name) : options.name;
    const auto tower_parts = tower.path.empty() ? std::vector<std::string>() : gguf_parts(tower.path);
    const Kept kept = TRY(keep_model(gguf_parts(source.file), tower_parts, name, options.copy));
    print(fmt::format("{} is here ({}{})\n", name, kept_text(kept),
                      kept == Kept::referenced ? ": it stays where it is, and must" : "") +
          said + printable(tower.report));
    print("kapitsa chat -m " + name + " asks it\n");
    return Done{};
}

Action setup_import(Arguments& arguments) {
    const auto options = std::make_shared<Options>();
    arguments.each_word(
        "PATH [MMPROJ]", options->paths,
        "A GGUF file, a folder that holds one, or ollama:NAME[:TAG]; and its vision tower, if "
        "that lies elsewhere");
    arguments.text("--name", options->name, "NAME", "What to call it", "as the file is called");
    arguments.text("--mmproj", options->mmproj, "FILE", "Its vision tower; off: none",
                   "a file *mmproj*.gguf or *.mmproj beside it that fits");
    arguments.flag("--copy", options->copy, "Copies the file, so that the original may go");
    return [options] { return import_model(*options); };
}

Action setup_rm(Arguments& arguments) {
    const auto name = std::make_shared<std::optional<std::string>>();
    arguments.words("NAME", *name, "An imported model, as kapitsa list shows it");
    return [name]() -> Status {
        if (!*name) return fail(Fault::invalid_input, "kapitsa rm needs the name of an imported model");
        TRY(remove_model(**name));
        print(**name + " is no longer here\n");
        return Done{};
    };
}

}  // namespace

extern const Command import_command{
    "import", "Makes a GGUF file known by a name",
    "The file is checked, then linked into the models folder and not copied; on another file system it is\n"
    "referred to. Of a file in parts (NAME-00001-of-00003.gguf) any part will do. A vision tower (mmproj) "
    "that\n"
    "lies beside it and fits comes along; of several, the one nearest to the model by its name and its "
    "types.\n"
    "\n"
    "Examples:\n"
    "  kapitsa import ~/Downloads/model-Q8_0.gguf\n"
    "  kapitsa import ~/.lmstudio/models/somebody/some-model --name clever\n"
    "  kapitsa import ~/Downloads/model-Q8_0.gguf ~/Downloads/mmproj-BF16.gguf\n"
    "  kapitsa import ollama:some-model:4b\n"
    "  kapitsa chat -m ~/Downloads/model-Q8_0.gguf     without importing it\n",
    setup_import};

extern const Command rm{
    "rm", "Removes an imported model",
    "What was linked or referred to stays where it came from; what was copied is gone. A vision\n"
    "tower that came along goes, too.\n"
    "\n"
    "Examples:\n"
    "  kapitsa rm clever\n",
    setup_rm};

}  // namespace kapitsa

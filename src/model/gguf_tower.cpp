#include "model/gguf_tower.h"

#include <iterator>
#include <nlohmann/json.hpp>

#include "formats/gguf_checkpoint.h"
#include "formats/in_quotes.h"
#include "model/gguf_dialect.h"

namespace kapitsa {
namespace {

constexpr std::string_view module = "model.visual.";  // what towers are called in model folders

/// Settings are read from what settings_of keeps: nothing that matters may be too long for it.
Status expect_all_settings(const Checkpoint& tower) {
    for (const GgufValue& value : tower.gguf->metadata)
        if (value.key.starts_with("clip.") && !tower.config->contains(value.key))
            return fail(Fault::corrupt_file,
                        "metadata " + in_quotes(value.key) + " is too long for a setting");
    return Done{};
}

Status expect_no_more(const Checkpoint& tower) {
    const std::string* first = nullptr;
    for (const auto& [name, tensor] : tower.tensors)
        if (!name.starts_with(module) && (!first || name < *first)) first = &name;
    if (!first) return Done{};
    return fail(Fault::unsupported,
                "the tensor " + in_quotes(*first) +
                    " is not known of such towers; computing without it would be a guess");
}

}  // namespace

Status translate_tower(const Checkpoint& model, Checkpoint& tower) {
    const auto architecture = model.gguf->text("general.architecture");
    const GgufDialect* dialect = TRY(find_gguf_dialect(architecture));
    if (!dialect->translate_tower)
        return fail(Fault::unsupported,
                    "models of the architecture " + in_quotes(architecture) + " are not shown images yet");
    TRY(expect_all_settings(tower));
    GgufTranslation translation(tower);
    TRY(dialect->translate_tower(translation, *model.config));
    return expect_no_more(tower);
}

Result<Checkpoint> open_tower(const Checkpoint& model, const std::string& path) {
    if (!model.gguf)
        return fail(Fault::invalid_input,
                    path +
                        " is of no use here: the vision tower of a model folder lies in "
                        "the folder; GGUF models have theirs in such a file");
    Checkpoint tower = TRY(open_gguf_tower(path));
    const Status translated = translate_tower(model, tower);
    if (!translated) return fail(Error(translated.error()).because(path));
    return tower;
}

Status add_tower(Checkpoint& model, Checkpoint tower) {
    for (auto& [name, tensor] : tower.tensors)
        if (!model.tensors.try_emplace(name, std::move(tensor)).second)
            return fail(Fault::corrupt_file, tower.path + ": tensor " + in_quotes(name) +
                                                 " stands in the model's own file as well");
    auto config = std::make_shared<Json>(*model.config);
    config->update(*tower.config);
    model.config = std::move(config);
    model.preprocessor_config = tower.preprocessor_config;
    model.files.insert(model.files.end(), std::make_move_iterator(tower.files.begin()),
                       std::make_move_iterator(tower.files.end()));
    return Done{};
}

}  // namespace kapitsa

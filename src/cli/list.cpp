// `kapitsa list`: the models on this machine.
#include <algorithm>
#include <cstdio>

#include "cli/command.h"
#include "cli/gguf_models.h"
#include "cli/models.h"
#include "cli/speaker.h"
#include "cli/towers.h"
#include "formats/gguf_checkpoint.h"
#include "model/gguf_dialect.h"

namespace kapitsa {
namespace {

/// Whoever made a folder chose its name.
std::string on_one_line(const std::string& name) {
    std::string text = printable(name);
    std::ranges::replace(text, '\n', '?');
    return text;
}

/// What a GGUF model takes with the vision tower that it would be shown images by.
std::uint64_t bytes_of(const ModelFolder& model) {
    if (vision_towers_beside(model.path).empty() || !is_gguf(model.path)) return model.weight_bytes;
    const auto opened = open_model(model.path);
    if (!opened) return model.weight_bytes;
    const auto choice = choose_tower(*opened, std::string());
    return model.weight_bytes + (choice && choice->tower ? gguf_bytes(choice->tower->path) : 0);
}

Status run() {
    const auto models = all_models();
    std::size_t width = 4;
    for (const auto& model : models) width = std::max(width, model.name.size());
    std::printf("%-*s  %9s  %s\n", static_cast<int>(width), "name", "size", "folder");
    for (const auto& model : models) {
        const std::string lost = lost_file(model);
        char size[32];
        std::snprintf(size, sizeof size, "%.1f MB", static_cast<double>(bytes_of(model)) / 1e6);
        std::printf("%-*s  %9s  %s%s\n", static_cast<int>(width), on_one_line(model.name).c_str(),
                    lost.empty() ? size : "lost", on_one_line(model.path).c_str(),
                    model.built_in ? " (built in)"
                    : lost.empty() ? ""
                                   : (": " + lost + " is not there any more").c_str());
    }
    std::printf("A model is a folder in the Hugging Face layout, or a GGUF file; %s.\n",
                how_to_add_models().c_str());
    return Done{};
}

Action setup(Arguments&) { return run; }

}  // namespace

extern const Command list{
    "list", "Shows the models on this machine",
    "Models are folders in the Hugging Face layout (config.json, tokenizer.json, safetensors), and GGUF\n"
    "files: kapitsa import gives one a name.\n"
    "They are looked for in $KAPITSA_MODELS, else in $XDG_DATA_HOME/kapitsa/models, else in\n"
    "~/.local/share/kapitsa/models.\n"
    "\n"
    "Examples:\n"
    "  kapitsa list\n"
    "  KAPITSA_MODELS=/data/models kapitsa list\n",
    setup};

}  // namespace kapitsa

// `kapitsa list`: the models on this machine.
#include <algorithm>
#include <cstdio>

#include "cli/command.h"
#include "cli/models.h"
#include "cli/speaker.h"

namespace kapitsa {
namespace {

/// Whoever made a folder chose its name.
std::string on_one_line(const std::string& name) {
    std::string text = printable(name);
    std::ranges::replace(text, '\n', '?');
    return text;
}

Status run() {
    const auto models = all_models();
    std::size_t width = 4;
    for (const auto& model : models) width = std::max(width, model.name.size());
    std::printf("%-*s  %9s  %s\n", static_cast<int>(width), "name", "size", "folder");
    for (const auto& model : models) {
        const std::string lost = lost_file(model);
        char size[32];
        std::snprintf(size, sizeof size, "%.1f MB", static_cast<double>(model.weight_bytes) / 1e6);
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

#include "cli/load.h"

#include <algorithm>
#include <thread>

#include "cli/models.h"
#include "cli/towers.h"
#include "engine/engine.h"
#include "model/gguf_dialect.h"
#include "model/load.h"

namespace kapitsa {
namespace {

// With less, hardly a greeting fits in beside what the template of a model writes around it.
constexpr std::uint64_t context_least = 64, context_most = 1u << 20, threads_most = 1024;

Result<LoadedModel> load_folder(const ModelFolder& folder, const LoadOptions& options) {
    LoadedModel loaded;
    loaded.checkpoint = std::make_unique<Checkpoint>(TRY(open_model(folder.path)));
    loaded.told_of_tower = TRY(give_tower(*loaded.checkpoint, options.mmproj));
    RunnerOptions wanted;
    if (options.context > 0) wanted.context = static_cast<std::uint32_t>(options.context);
    wanted.sequences = static_cast<std::uint32_t>(options.parallel);
    wanted.threads = wanted_threads(options.threads);
    wanted.expert_bytes = options.expert_bytes;
    if (!options.backend.empty()) wanted.backend = options.backend;
    auto runner = TRY(load_runner(*loaded.checkpoint, wanted));
    const bool sees = runner->info().picture_patches > 0;
    if (!sees && !options.mmproj.empty() && options.mmproj != no_tower)
        return fail(Fault::unsupported, options.mmproj + ": " + runner->info().blind_because);
    if (!sees) loaded.told_of_tower.clear();
    auto engine = Engine::start(std::move(runner));
    loaded.service = TRY(ModelService::make(*loaded.checkpoint, std::move(engine), folder.name));
    return loaded;
}

}  // namespace

Error explained(Error error, const std::string& path) {
    if (!error.message.starts_with(path)) error = std::move(error).because(path);
    if (error.fault == Fault::corrupt_file)
        error.message += "; the file is damaged or not whole: download or copy the model again";
    return error;
}

void declare_load_options(Arguments& arguments, LoadOptions& options) {
    arguments.text("-m,--model", options.model, "MODEL",
                   "A GGUF file, a model folder, or a name that kapitsa list shows", "the built-in model");
    arguments.number("--ctx", options.context, context_least, context_most,
                     "Tokens of prompt and answer together", "what the model was made for, at most 32768");
    arguments.bytes(
        "--expert-memory", options.expert_bytes,
        "Memory for a model's experts and tables of n-grams; the others are read from the disk when "
        "they are asked for",
        "off where the model fits, else what there is");
    arguments.number("--threads", options.threads, 1, threads_most, "Threads that compute", "one a core");
    arguments.text(
        "--backend", options.backend, "NAME",
        "What computes: cpu, cuda (an NVIDIA GPU), or emulator (the GPU's kernels on the CPU, very slow)",
        "KAPITSA_BACKEND, else cpu");
}

void declare_tower_option(Arguments& arguments, LoadOptions& options) {
    arguments.text("--mmproj", options.mmproj, "FILE",
                   "The vision tower of a GGUF model, by which it is shown images; off: none",
                   "a file *mmproj*.gguf or *.mmproj beside the model that fits");
}

std::uint32_t wanted_threads(std::uint64_t threads) {
    if (threads > 0) return static_cast<std::uint32_t>(threads);
    return std::max(1u, std::thread::hardware_concurrency());
}

Result<LoadedModel> load_model(const LoadOptions& options) {
    const auto folder = TRY(find_model(options.model));
    if (const std::string lost = lost_file(folder); !lost.empty())
        return fail(Fault::invalid_input, folder.name + " refers to " + lost +
                                              ", which is not there any more: put it back, or kapitsa rm " +
                                              folder.name);
    auto loaded = load_folder(folder, options);
    if (!loaded) return fail(explained(std::move(loaded.error()), folder.path));
    return loaded;
}

}  // namespace kapitsa

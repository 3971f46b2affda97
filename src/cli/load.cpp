#include "cli/load.h"

#include <algorithm>
#include <thread>

#include "cli/models.h"
#include "engine/engine.h"
#include "model/load.h"

namespace kapitsa {
namespace {

constexpr std::uint64_t context_most = 1u << 20, threads_most = 1024;

Result<LoadedModel> load_folder(const ModelFolder& folder, const LoadOptions& options) {
    LoadedModel loaded;
    loaded.checkpoint = std::make_unique<Checkpoint>(TRY(open_checkpoint(folder.path)));
    RunnerOptions wanted;
    if (options.context > 0) wanted.context = static_cast<std::uint32_t>(options.context);
    wanted.sequences = static_cast<std::uint32_t>(options.parallel);
    wanted.threads = wanted_threads(options);
    auto engine = Engine::start(TRY(load_runner(*loaded.checkpoint, wanted)));
    loaded.service = TRY(ModelService::make(*loaded.checkpoint, std::move(engine), folder.name));
    return loaded;
}

}  // namespace

void declare_load_options(Arguments& arguments, LoadOptions& options) {
    arguments.text("-m,--model", options.model, "MODEL",
                   "A model folder, or a name that kapitsa list shows; the built-in model if left out");
    arguments.number(
        "--ctx", options.context, 1, context_most,
        "Tokens of prompt and answer together; if left out, what the model was made for, at most 32768");
    arguments.number("--threads", options.threads, 1, threads_most, "Threads; one a core if left out");
}

std::uint32_t wanted_threads(const LoadOptions& options) {
    if (options.threads > 0) return static_cast<std::uint32_t>(options.threads);
    return std::max(1u, std::thread::hardware_concurrency());
}

Result<LoadedModel> load_model(const LoadOptions& options) {
    const auto folder = TRY(find_model(options.model));
    auto loaded = load_folder(folder, options);
    if (!loaded) return fail(std::move(loaded.error()).because("loading " + folder.path));
    return loaded;
}

}  // namespace kapitsa

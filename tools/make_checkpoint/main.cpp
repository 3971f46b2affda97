// make_checkpoint: writes a checkpoint with random weights and the true shapes of a model, to measure with.
#include <fmt/core.h>

#include <cstdio>

#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/models.h"
#include "cli/progress.h"
#include "make_checkpoint/writer.h"

namespace kapitsa::random_checkpoint {
namespace {

struct Options {
    std::optional<std::string> folder;
    std::string shape = "qwen3.5-0.8b", form = "affine4";
    std::uint64_t layers = 0, seed = 1, shard_mb = 5000;
};

std::string shape_rows() {
    std::string text;
    for (const Shape& shape : shapes())
        text += help_row(shape.name, fmt::format("{}, {}", shape.family, shape.note));
    return text;
}

Status run(const Options& options) {
    if (!options.folder) return fail(Fault::invalid_input, "make_checkpoint needs a folder to write to");
    const auto form = form_named(options.form);
    if (!form)
        return fail(Fault::invalid_input, "there is no form " + options.form + "; there are " + form_names());
    const auto plan = plan_of(options.shape, std::uint32_t(options.layers), expert_layout(*form));
    if (!plan)
        return fail(Fault::invalid_input,
                    "there is no shape " + options.shape + "; there are:\n" + shape_rows());
    ProgressLine line("writing");
    const std::uint64_t bytes = TRY(write_checkpoint(
        *plan, *form,
        {.folder = *options.folder,
         .tokenizer = TRY(built_in_model()).path,
         .seed = options.seed,
         .shard_bytes = options.shard_mb * 1'000'000,
         .progress = [&](std::uint64_t done, std::uint64_t of) { line.show(done >> 20, of >> 20, "MiB"); }}));
    line.clear();
    fmt::print("{}: {} in {}, {:.2f} GB\n", *options.folder, options.shape, options.form,
               double(bytes) / 1e9);
    return Done{};
}

Result<int> main_of(std::span<const char* const> words) {
    Options options;
    Arguments arguments("make_checkpoint");
    arguments.words("FOLDER", options.folder, "Where to write it; it must not be there yet");
    arguments.text("--shape", options.shape, "NAME", "One of the shapes below");
    const std::string forms = "How the weights are stored: " + form_names();
    arguments.text("--form", options.form, "NAME", forms.c_str());
    arguments.number("--layers", options.layers, 0, 1024, "This many layers alone, from the first on", "all");
    arguments.number("--seed", options.seed, 0, UINT64_MAX, "The same seed gives the same bytes");
    arguments.number("--shard-mb", options.shard_mb, 1, 1'000'000, "Megabytes of a file, at most");
    if (TRY(arguments.parse(words)) == Arguments::Wanted::help) {
        fmt::print(
            "Writes a checkpoint with random weights and the true shapes of a model, to measure with.\n\n{}\n"
            "Shapes:\n{}\nWhat it answers is noise; it has the built-in model's tokenizer.\n\nExamples:\n"
            "  make_checkpoint big --shape qwen3.5-4b --form affine4\n"
            "  make_checkpoint part --shape qwen3.5-35b-a3b --form nvfp4 --layers 8\n"
            "  kapitsa bench -m ./big\n",
            arguments.help(), shape_rows());
        return 0;
    }
    TRY(run(options));
    return 0;
}

}  // namespace
}  // namespace kapitsa::random_checkpoint

int main(int count, char** words) {
    using namespace kapitsa;
    const std::span<const char* const> all(words, static_cast<std::size_t>(count));
    const auto code = random_checkpoint::main_of(all.empty() ? all : all.subspan(1));
    if (code) return *code;
    std::fprintf(stderr, "make_checkpoint: %s\n", code.error().message.c_str());
    return exit_code(code.error().fault);
}

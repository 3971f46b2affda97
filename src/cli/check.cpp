// `kapitsa check`: whether a model computes what it should: against the reference's outputs, against another
// precision or backend of itself, and how far its own rounding goes. docs/output_check.md says how and why.
#include <fmt/core.h>

#include <memory>

#include "cli/check_report.h"
#include "cli/check_texts.h"
#include "cli/command.h"
#include "cli/load.h"
#include "cli/models.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "model/gguf_dialect.h"
#include "model/load.h"

namespace kapitsa {
namespace {

// Recurrent rules take their chunked form for more rows than this, see ARCHITECTURE.md.
constexpr std::uint32_t rows_one_by_one = 16;
constexpr const char* wide_backend = "cpu-f64";

struct Options {
    std::optional<std::string> model;
    std::string against, golden, backend = default_backend(), against_backend, texts;
    std::uint64_t tokens = 1u << 20, threads = 0;
    std::optional<double> limit;
    bool json = false;
};

/// A model on a backend, ready to read.
struct Loaded {
    std::string name;
    std::unique_ptr<Checkpoint> checkpoint;  // outlives the runner
    std::unique_ptr<Runner> runner;
};

Result<std::unique_ptr<Checkpoint>> open_at(const std::string& path) {
    return std::make_unique<Checkpoint>(TRY(open_model(path)));
}

RunnerOptions runner_options(const Options& options, const std::string& backend) {
    RunnerOptions wanted;
    wanted.threads = wanted_threads(options.threads);
    wanted.backend = backend;
    return wanted;
}

Result<std::unique_ptr<Runner>> load_reader(const Checkpoint& checkpoint, const Options& options,
                                            const std::string& backend, std::uint32_t sequences) {
    RunnerOptions wanted = runner_options(options, backend);
    wanted.sequences = sequences;
    wanted.context = reading_window;
    wanted.rows_per_step = wanted.wanted_rows = reading_rows;
    wanted.draft_rows = 1;
    auto runner = load_runner(checkpoint, wanted);
    if (!runner && !runner.error().message.starts_with(checkpoint.path))
        return fail(std::move(runner.error()).because(checkpoint.path));
    return runner;
}

Result<std::vector<Reading>> read_all(const std::vector<TextTokens>& texts,
                                      const std::vector<Reader>& readers) {
    ProgressLine line("reading");
    return read_texts(texts, readers, [&](std::uint64_t done, std::uint64_t tokens) {
        line.show(done, tokens, "tokens");
        return true;
    });
}

std::string words_of(const std::vector<TextTokens>& texts) {
    std::size_t tokens = 0;
    for (const TextTokens& text : texts) tokens += text.tokens.size();
    return fmt::format("{} texts, {} tokens", texts.size(), tokens);
}

/// The model beside itself, with the same sums taken in other ways.
Status check_floor(const Options& options) {
    const ModelFolder folder = TRY(find_model(options.model.value_or("")));
    const auto checkpoint = TRY(open_at(folder.path));
    const auto runner = TRY(load_reader(*checkpoint, options, options.backend, 2));
    const auto wide = TRY(load_reader(*checkpoint, options, wide_backend, 1));
    const auto texts = TRY(
        tokenized(TRY(check_texts(options.texts)), *checkpoint, options.tokens, runner->info().vocabulary));
    TextReport report{
        .kind = "floor",
        .readers = {folder.name, "sums in f64", "row by row"},
        .reader_notes = fmt::format(
            "{} ({}) on {}; {}.\n"
            "sums in f64: matrix products and norms of the {} backend. row by row: {} rows a step "
            "in place of {}.",
            folder.name, runner->info().architecture, options.backend, words_of(texts), wide_backend,
            rows_one_by_one, reading_rows),
        .texts = {}};
    report.texts = TRY(read_all(texts, {{runner.get(), 0, reading_rows},
                                        {wide.get(), 0, reading_rows},
                                        {runner.get(), 1, rows_one_by_one}}));
    show(report, options.json);
    return Done{};
}

/// The model beside another precision of it, or itself on another backend.
Status check_against(const Options& options) {
    const ModelFolder one = TRY(find_model(options.model.value_or("")));
    const ModelFolder other = options.against.empty() ? one : TRY(find_model(options.against));
    const std::string backend = options.against_backend.empty() ? options.backend : options.against_backend;
    const auto checkpoint = TRY(open_at(one.path)), against = TRY(open_at(other.path));
    const auto runner = TRY(load_reader(*checkpoint, options, options.backend, 1));
    const auto beside = TRY(load_reader(*against, options, backend, 1));
    const std::uint32_t vocabulary = runner->info().vocabulary, of_other = beside->info().vocabulary;
    if (vocabulary != of_other)
        return fail(
            Fault::invalid_input,
            fmt::format("{} has {} tokens and {} has {}: only models of one vocabulary can be compared",
                        one.path, vocabulary, other.path, of_other));
    const auto files = TRY(check_texts(options.texts));
    const auto texts = TRY(tokenized(files, *checkpoint, options.tokens, vocabulary));
    TRY(expect_same_tokens(texts, TRY(tokenized(files, *against, options.tokens, vocabulary)), one.path,
                           other.path));
    TextReport report{.kind = "against",
                      .readers = {one.name, other.name},
                      .reader_notes = fmt::format(
                          "{} on {}, against {} on {}; {}. KL in nats, of {} from {}.", one.path,
                          options.backend, other.path, backend, words_of(texts), other.name, one.name),
                      .texts = {}};
    report.texts = TRY(read_all(texts, {{runner.get(), 0, reading_rows}, {beside.get(), 0, reading_rows}}));
    show(report, options.json);
    return Done{};
}

/// Without a model's name, the folder of the goldens holds the model.
Status check_golden(const Options& options) {
    const ModelFolder folder = TRY(find_model(options.model ? *options.model : options.golden));
    const auto checkpoint = TRY(open_at(folder.path));
    const Goldens goldens = TRY(read_goldens(options.golden, *checkpoint->config));
    ProgressLine line(folder.name);
    std::uint64_t done = 0;
    const auto results =
        TRY(compare_with_goldens(*checkpoint, goldens, options.limit.value_or(golden_limit),
                                 runner_options(options, options.backend), [&](const std::string&) {
                                     line.show(done++, goldens.cases.size(), "prompts");
                                     return true;
                                 }));
    line.clear();
    show(folder.path, results, goldens.passed_over, options.json);
    TRY(flush_output());
    const std::string mismatch = first_mismatch(results);
    if (!mismatch.empty()) return fail(Fault::device, folder.path + ": " + mismatch);
    return Done{};
}

Status run(const Options& options) {
    const bool compares = !options.against.empty() || !options.against_backend.empty();
    if (!options.golden.empty() && compares)
        return fail(Fault::invalid_input,
                    "--golden compares with a reference and --against with a model: one "
                    "at a time; kapitsa check --help says more");
    if (!options.golden.empty()) return check_golden(options);
    return compares ? check_against(options) : check_floor(options);
}

Action setup(Arguments& arguments) {
    const auto options = std::make_shared<Options>();
    arguments.words(
        "MODEL", options->model,
        "A GGUF file, a model folder, or a name that kapitsa list shows; without one the built-in "
        "model, or what lies beside the goldens");
    arguments.text("--against", options->against, "MODEL",
                   "Compares with another precision of the same model");
    arguments.text("--golden", options->golden, "PATH",
                   "Compares with a reference's outputs: a folder of goldens, or one file of them");
    arguments.text("--backend", options->backend, "NAME",
                   "What computes MODEL: cpu, cuda, emulator or cpu-f64");
    arguments.text("--against-backend", options->against_backend, "NAME",
                   "What computes the model of --against, which is MODEL if none is named", "as --backend");
    arguments.text("--texts", options->texts, "FOLDER",
                   "Text files to read in place of those that come along", "those beside the built-in model");
    arguments.number("--tokens", options->tokens, 2, 1u << 20, "Tokens of each text at most");
    arguments.real("--limit", options->limit, 0, 1e6, "The largest difference from a golden that holds",
                   "0.0005");
    arguments.number("--threads", options->threads, 1, 1024, "Threads that compute", "one a core");
    arguments.flag("--json", options->json, "One JSON object a line instead of a table");
    return [options] { return run(*options); };
}

}  // namespace

extern const Command check{
    "check", "Measures how right a model's outputs are",
    "Alone, it says how far rounding goes in this model: its outputs beside those with the same sums in f64, "
    "and\n"
    "in another order. That KL is the model's floor. With --against it says how far another precision or "
    "backend\n"
    "of the model is: a change of kernel or format is as good as what it replaces while its KL is within "
    "twice\n"
    "the floor. With --golden the exit code is 6 where an output is not the reference's; the message names "
    "the\n"
    "tensor, the position, the difference and the limit.\n"
    "KL is in nats over the whole vocabulary; same top: how often both would choose the same token.\n"
    "\n"
    "Examples:\n"
    "  kapitsa check                                     the built-in model's perplexity and floor\n"
    "  kapitsa check ~/m/model-8bit --tokens 200         the same of a large one, over less text\n"
    "  kapitsa check ~/m/model-bf16 --against ~/m/model-4bit\n"
    "  kapitsa check tiny --against-backend cpu-f64\n"
    "  kapitsa check --golden tests/data/goldens/qwen3_5-dense\n"
    "  kapitsa check tiny --golden goldens-mlx4.safetensors --json\n",
    setup};

}  // namespace kapitsa

// `kapitsa bench`: how fast prompts are read and answers are written, and how near that is to what the memory
// of this machine allows. The whole engine is measured, on the clock of whoever waits for the tokens.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

#include "base/json.h"
#include "cli/bandwidth.h"
#include "cli/command.h"
#include "cli/load.h"
#include "cli/output.h"

namespace kapitsa {
namespace {

constexpr std::uint32_t tokens_most = 1u << 20;

struct Options {
    LoadOptions load;
    std::vector<std::uint32_t> prompts = {16, 128, 512}, answers = {64};  // tokens
    std::uint64_t runs = 3;
    bool json = false;
};

struct Lengths {
    std::uint32_t prompt, answer;  // tokens
};

struct Speeds {
    double prefill_tokens_per_s = 0, decode_tokens_per_s = 0, first_token_ms = 0;
};

/// Before anything is measured: every pair of lengths must fit.
Status check_lengths(const Options& options, std::uint32_t context) {
    const auto prompt = std::ranges::max(options.prompts), answer = std::ranges::max(options.answers);
    if (std::uint64_t(prompt) + answer <= context) return Done{};
    return fail(
        Fault::invalid_input,
        fmt::format("--prompt {} and --answer {} together are more than the context of {} tokens: ask for "
                    "less, or for a larger --ctx",
                    prompt, answer, context));
}

/// Tokens that no earlier run had, so that no cache answers for the model.
std::vector<Token> random_tokens(std::uint32_t count, std::uint32_t vocabulary, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::uniform_int_distribution<Token> token(0, static_cast<Token>(vocabulary - 1));
    std::vector<Token> tokens(count);
    std::ranges::generate(tokens, [&] { return token(random); });
    return tokens;
}

/// One request, alone, to the end of its answer; no token stops it.
Result<Speeds> measure(ModelService& service, Lengths lengths, std::uint64_t seed) {
    using Clock = std::chrono::steady_clock;
    const auto vocabulary = static_cast<std::uint32_t>(service.tokenizer().vocabulary());
    ReplyRequest request{.prompt = random_tokens(lengths.prompt, vocabulary, seed),
                         .max_tokens = lengths.answer,
                         .sampling = {},
                         .stops = false};
    request.sampling.temperature = 0;
    const auto start = Clock::now();
    const auto ticket = TRY(service.submit(std::move(request)));

    std::uint32_t tokens = 0, first_tokens = 0;
    Clock::time_point first = start, last = start;
    while (auto event = ticket.outbox->take()) {
        if (auto* failed = std::get_if<Error>(&*event)) return fail(std::move(*failed));
        if (std::holds_alternative<Finished>(*event)) break;
        const auto* came = std::get_if<Tokens>(&*event);
        if (!came || came->accepted.empty()) continue;
        last = Clock::now();
        if (tokens == 0) {
            first = last;
            first_tokens = static_cast<std::uint32_t>(came->accepted.size());
        }
        tokens += static_cast<std::uint32_t>(came->accepted.size());
    }
    const auto seconds = [](Clock::duration time) { return std::chrono::duration<double>(time).count(); };
    const double to_first = seconds(first - start), rest = seconds(last - first);
    return Speeds{.prefill_tokens_per_s = to_first > 0 ? lengths.prompt / to_first : 0,
                  .decode_tokens_per_s = rest > 0 ? (tokens - first_tokens) / rest : 0,
                  .first_token_ms = to_first * 1e3};
}

template <typename Member>
double median(std::vector<Speeds>& runs, Member member) {
    std::ranges::sort(runs, {}, member);
    return runs[runs.size() / 2].*member;
}

/// Four digits after the point: no measurement here knows more.
double rounded(double value) { return std::round(value * 1e4) / 1e4; }

class Report {
public:
    /// bandwidth: bytes a second; 0: not measured.
    Report(const ModelService& model, std::uint32_t threads, bool json, double bandwidth)
        : model_(model), threads_(threads), json_(json), bandwidth_(bandwidth) {}

    void head() const {
        if (json_) return;
        const auto& info = model_.info();
        const std::string reader =
            bandwidth_ > 0 ? fmt::format("{} threads read {:.1f} GB/s", threads_, bandwidth_ / 1e9)
                           : info.device + " (its bandwidth is not measured)";
        print(fmt::format("{} ({}), {:.1f} MB read a token; {}\n", model_.name(), info.architecture,
                          static_cast<double>(info.decode_bytes) / 1e6, reader));
        print(fmt::format("{:>7} {:>7} {:>16} {:>16} {:>16} {:>10}\n", "prompt", "answer", "prefill tokens/s",
                          "decode tokens/s", "first token ms", "bandwidth"));
    }

    /// How often experts, or rows of tables, were in memory, where not all of them are. `before`: when
    /// measuring began.
    void disk(const EngineCounters& before) const {
        const EngineCounters now = model_.counters();
        disk("experts", model_.info().expert_bytes, before.experts, now.experts);
        disk("rows of tables", model_.info().table_bytes, before.tables, now.tables);
    }

    void disk(const char* what, std::uint64_t memory_bytes, const DiskCounters& before,
              const DiskCounters& now) const {
        const double found = double(now.found - before.found), read = double(now.read - before.read);
        if (memory_bytes == 0 || found + read == 0) return;
        const double share = found / (found + read), bytes = double(now.bytes_read - before.bytes_read);
        if (json_)
            print(fmt::format("{}\n", dump_json(Json{{"bench", what},
                                                     {"model", model_.name()},
                                                     {"memory_bytes", memory_bytes},
                                                     {"found_share", rounded(share)},
                                                     {"read_bytes", now.bytes_read - before.bytes_read}})));
        else
            print(fmt::format("{}: {:.0f} MiB of memory for them, {:.1f}% found there, {:.1f} MB read\n",
                              what, double(memory_bytes) / 0x1p20, share * 100, bytes / 1e6));
    }

    void row(Lengths lengths, std::vector<Speeds> runs) const {
        const double prefill = median(runs, &Speeds::prefill_tokens_per_s);
        const double decode = median(runs, &Speeds::decode_tokens_per_s);
        const double first = median(runs, &Speeds::first_token_ms);
        const auto& info = model_.info();
        const double share =
            bandwidth_ > 0 ? static_cast<double>(info.decode_bytes) * decode / bandwidth_ : 0;
        if (json_) {
            Json line{{"bench", "generate"},
                      {"model", model_.name()},
                      {"backend", info.backend},
                      {"threads", threads_},
                      {"prompt_tokens", lengths.prompt},
                      {"answer_tokens", lengths.answer},
                      {"runs", runs.size()},
                      {"prefill_tokens_per_s", rounded(prefill)},
                      {"decode_tokens_per_s", rounded(decode)},
                      {"first_token_ms", rounded(first)},
                      {"decode_bytes", info.decode_bytes}};
            if (bandwidth_ > 0) {
                line["read_bytes_per_s"] = std::round(bandwidth_);
                line["bandwidth_share"] = rounded(share);
            }
            print(fmt::format("{}\n", dump_json(line)));
            return;
        }
        const std::string part = bandwidth_ > 0 ? fmt::format("{:.0f}%", share * 100) : "-";
        print(fmt::format("{:>7} {:>7} {:>16.1f} {:>16.1f} {:>16.1f} {:>10}\n", lengths.prompt,
                          lengths.answer, prefill, decode, first, part));
    }

private:
    const ModelService& model_;
    std::uint32_t threads_;
    bool json_;
    double bandwidth_;
};

Status run(const Options& options) {
    const auto model = TRY(load_model(options.load));
    TRY(check_lengths(options, model.service->context()));
    const auto threads = wanted_threads(options.load.threads);
    const double bandwidth = model.service->info().on_host ? read_bandwidth(threads) : 0;
    const Report report(*model.service, threads, options.json, bandwidth);
    report.head();
    TRY(flush_output());
    TRY(measure(*model.service, {16, 8}, 1));  // warms caches and the clock of the processor up
    const EngineCounters before = model.service->counters();
    std::uint64_t seed = 2;
    for (const auto prompt : options.prompts)
        for (const auto answer : options.answers) {
            std::vector<Speeds> runs;
            for (std::uint64_t i = 0; i < options.runs; ++i)
                runs.push_back(TRY(measure(*model.service, {prompt, answer}, seed++)));
            report.row({prompt, answer}, std::move(runs));
            TRY(flush_output());
        }
    report.disk(before);
    return Done{};
}

Action setup(Arguments& arguments) {
    const auto options = std::make_shared<Options>();
    declare_load_options(arguments, options->load);
    arguments.numbers("--prompt", options->prompts, 1, tokens_most, "Tokens of the prompts");
    arguments.numbers("--answer", options->answers, 1, tokens_most, "Tokens of the answers");
    arguments.number("--runs", options->runs, 1, 1000, "Runs of each; the median is shown");
    arguments.flag("--json", options->json, "One JSON object a line instead of a table");
    return [options] { return run(*options); };
}

}  // namespace

extern const Command bench{"bench", "Measures how fast prompts are read and answers are written",
                           "bandwidth is what the weights read for the tokens take of the memory bandwidth "
                           "measured in the same run;\n"
                           "a model that fits the caches can pass 100 %.\n"
                           "\n"
                           "Examples:\n"
                           "  kapitsa bench\n"
                           "  kapitsa bench --prompt 128,2048 --answer 32,256 --runs 5\n"
                           "  kapitsa bench --threads 4 --json >> speeds.jsonl\n",
                           setup};

}  // namespace kapitsa

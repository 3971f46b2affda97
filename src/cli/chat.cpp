// `kapitsa chat`: one answer, or a conversation at the terminal, from a model in this process.
#include <fmt/core.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>

#include "cli/command.h"
#include "cli/line_editor.h"
#include "cli/load.h"
#include "cli/speaker.h"
#include "server/reply.h"

namespace kapitsa {
namespace {

constexpr std::size_t input_bytes_max = 16u << 20;  // of standard input

struct Options {
    LoadOptions load;
    std::string prompt, system;
    bool think = false, no_think = false, verbose = false;
    double temperature = 0;
    std::uint64_t seed = 0, max_tokens = 0;
    std::function<bool()> temperature_given, seed_given;
};

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler writes it");

Message message(const char* role, std::string content) {
    Message message;
    message.role = role;
    message.content = std::move(content);
    return message;
}

class Session {
public:
    Session(ModelService& service, const Options& options)
        : service_(service), options_(options), terminal_(::isatty(STDOUT_FILENO) == 1) {
        clear();
    }

    /// Forgets what was said; the system prompt stays.
    void clear() {
        conversation_ = {};
        if (!options_.system.empty()) conversation_.messages.push_back(message("system", options_.system));
        if (options_.think || options_.no_think)
            conversation_.variables = std::make_shared<Json>(Json{{"enable_thinking", options_.think}});
    }

    /// Asks, and shows the answer as it comes. After an error the question is forgotten.
    Status ask(std::string question) {
        conversation_.messages.push_back(message("user", std::move(question)));
        auto answer = this->answer();
        if (!answer) {
            conversation_.messages.pop_back();
            return fail(std::move(answer.error()));
        }
        conversation_.messages.push_back(std::move(*answer));
        return Done{};
    }

private:
    Sampling sampling() const {
        Sampling sampling = service_.sampling();
        sampling.seed = options_.seed_given() ? options_.seed : std::random_device()();
        if (options_.temperature_given()) sampling.temperature = static_cast<float>(options_.temperature);
        return sampling;
    }

    Result<Message> answer() {
        const auto prompt = TRY(service_.prompt(conversation_));
        interrupted = false;
        const auto ticket =
            TRY(service_.submit({.prompt = prompt.tokens,
                                 .max_tokens = static_cast<std::uint32_t>(options_.max_tokens),
                                 .sampling = sampling()}));
        Reply reply(service_.tokenizer(), {.reader = service_.reader(prompt, nullptr)});
        Speaker speaker(stdout, terminal_);
        Message said = message("assistant", {});
        const auto say = [&](const std::vector<ReplyPiece>& pieces) {
            for (const auto& piece : pieces)
                if (piece.kind == ReplyPiece::Kind::content) said.content += piece.text;
            speaker.say(pieces);
        };
        while (!reply.ended() && !interrupted) {
            auto event = ticket.outbox->take();
            if (!event) break;
            say(reply.take(std::move(*event)));
        }
        if (!reply.ended()) say(reply.cut());
        if (reply.engine_runs()) service_.cancel(ticket.id, reply.keep_tokens());
        speaker.finish();
        if (reply.error()) return fail(*reply.error());
        notes(reply, speaker);
        return said;
    }

    void notes(const Reply& reply, Speaker& speaker) const {
        if (!interrupted && reply.end() == ReplyEnd::length)
            speaker.note("[cut: --max-tokens or the context]");
        if (!options_.verbose) return;
        const auto usage = reply.usage();
        const auto timings = reply.timings();
        const auto speed = [](std::uint32_t tokens, double seconds) {
            return seconds > 0 ? tokens / seconds : 0.0;
        };
        speaker.note(fmt::format("[prompt {} tokens, {} of them known, {:.1f}/s; answer {} tokens, {:.1f}/s]",
                                 usage.prompt_tokens, usage.cached_tokens,
                                 speed(usage.prompt_tokens - usage.cached_tokens, timings.prefill_seconds),
                                 usage.reply_tokens, speed(usage.reply_tokens, timings.decode_seconds)));
    }

    ModelService& service_;
    const Options& options_;
    const bool terminal_;
    Conversation conversation_;
};

Result<std::string> read_standard_input() {
    std::string text;
    char buffer[1 << 16];
    while (const std::size_t bytes = std::fread(buffer, 1, sizeof buffer, stdin)) {
        text.append(buffer, bytes);
        if (text.size() > input_bytes_max)
            return fail(Fault::invalid_input, "the input is longer than 16 MiB");
    }
    while (!text.empty() && text.back() == '\n') text.pop_back();
    if (text.empty()) return fail(Fault::invalid_input, "there is no prompt: kapitsa chat \"...\" asks one");
    return text;
}

void on_interrupt(int) { interrupted = true; }

/// Ctrl-C during an answer stops the answer; the editor has its own while a line is typed.
void catch_interrupts() {
    struct sigaction action = {};
    action.sa_handler = on_interrupt;
    action.sa_flags = SA_RESTART;
    ::sigaction(SIGINT, &action, nullptr);
}

void show_help() {
    std::puts(
        "/new    begins a new conversation\n"
        "/help   shows this\n"
        "/quit   leaves, as Ctrl-D does\n"
        "Ctrl-C stops an answer. A line that ends in a backslash goes on in the next one.");
}

/// A question, which may have several lines. Nothing when the person left.
std::optional<std::string> read_question(LineEditor& editor) {
    std::string question;
    for (const char* prompt = "> ";; prompt = ". ") {
        auto line = editor.read(prompt);
        if (line.kind == LineEditor::Line::Kind::end) return std::nullopt;
        if (line.kind == LineEditor::Line::Kind::interrupted) return "";
        question += line.text;
        if (question.empty() || question.back() != '\\') return question;
        question.back() = '\n';
    }
}

Status converse(Session& session, const std::string& model) {
    std::printf("%s is here. /help shows what can be done, Ctrl-D leaves.\n", model.c_str());
    catch_interrupts();
    LineEditor editor(history_file());
    while (auto question = read_question(editor)) {
        if (question->find_first_not_of(" \t\n") == std::string::npos) continue;
        if (*question == "/quit" || *question == "/exit") break;
        if (*question == "/help")
            show_help();
        else if (*question == "/new")
            session.clear();
        else if (question->front() == '/' && question->find_first_of(" \n/", 1) == std::string::npos)
            std::printf("There is no %s; /help shows what there is.\n", question->c_str());
        else if (const auto asked = session.ask(std::move(*question)); !asked) {
            if (asked.error().fault == Fault::device) return asked;
            std::printf("%s (/new begins again)\n", asked.error().message.c_str());
        }
    }
    return Done{};
}

Status run(const Options& options) {
    if (options.think && options.no_think)
        return fail(Fault::invalid_input, "--think and --no-think contradict each other: give one of them");
    const bool interactive = options.prompt.empty() && ::isatty(STDIN_FILENO) == 1;
    std::string question = options.prompt;
    if (question.empty() && !interactive) question = TRY(read_standard_input());
    const auto model = TRY(load_model(options.load));
    Session session(*model.service, options);
    return interactive ? converse(session, model.service->name()) : session.ask(std::move(question));
}

Action setup(Arguments& arguments) {
    const auto options = std::make_shared<Options>();
    arguments.positional("prompt", options->prompt,
                         "What to ask; if left out, what comes from a pipe, or a conversation");
    declare_load_options(arguments, options->load);
    arguments.text("--system", options->system, "TEXT", "What the model is told before all else");
    arguments.flag("--think", options->think, "Lets the model think first, where it can");
    arguments.flag("--no-think", options->no_think, "Lets it answer at once");
    arguments.real("--temperature", options->temperature, 0, 2, "0 always takes the likeliest token");
    arguments.number("--seed", options->seed, 0, UINT64_MAX, "Repeats an answer");
    arguments.number("--max-tokens", options->max_tokens, 1, 1u << 20, "The longest answer, in tokens");
    arguments.flag("-v,--verbose", options->verbose, "Shows counts and speeds after each answer");
    options->temperature_given = arguments.given("--temperature");
    options->seed_given = arguments.given("--seed");
    return [options] { return run(*options); };
}

}  // namespace

extern const Command chat{"chat", "Asks a model, once or in a conversation",
                          "Examples:\n"
                          "  kapitsa chat                                a conversation; Ctrl-D leaves it\n"
                          "  kapitsa chat \"Write a function that counts the vowels in a string\"\n"
                          "  git diff | kapitsa chat --system \"Write a commit message\"\n"
                          "  kapitsa chat --temperature 0 --max-tokens 64 \"Good morning!\"\n",
                          setup};

}  // namespace kapitsa

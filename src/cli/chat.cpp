// `kapitsa chat`: one answer, or a conversation at the terminal, from a model in this process.
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>

#include "base/terminal.h"
#include "cli/command.h"
#include "cli/interrupts.h"
#include "cli/line_editor.h"
#include "cli/load.h"
#include "cli/output.h"
#include "cli/question.h"
#include "cli/speaker.h"
#include "formats/regular_file.h"
#include "image/decode.h"
#include "server/generation.h"
#include "server/reply.h"

namespace kapitsa {
namespace {

struct Options {
    LoadOptions load;
    std::optional<std::string> prompt;
    std::string system;
    std::vector<std::string> images;
    bool think = false, no_think = false, verbose = false;
    std::optional<double> temperature;
    std::optional<std::uint64_t> seed, max_tokens;
};

Message message(const char* role, std::string content) {
    Message message;
    message.role = role;
    message.content = std::move(content);
    return message;
}

/// The bytes of an image file; what they are is looked at with the question.
Result<MessageImage> read_image(const std::string& path) {
    auto file = std::make_shared<const std::string>(TRY(read_text_file(path, image_bytes_most)));
    return MessageImage{0, std::move(file), path};
}

class Session {
public:
    Session(ModelService& service, const Options& options, bool goes_on)
        : service_(service), options_(options), goes_on_(goes_on), manner_(manner_of(stdout)) {
        clear();
    }

    /// Forgets what was said; the system prompt stays.
    void clear() {
        conversation_ = {};
        shown_.clear();
        if (!options_.system.empty()) conversation_.messages.push_back(message("system", options_.system));
        if (options_.think || options_.no_think)
            conversation_.variables = std::make_shared<Json>(Json{{"enable_thinking", options_.think}});
    }

    /// Shows the model an image with the next question.
    Status show(MessageImage image) {
        if (const std::string& why = service_.blind_because(); !why.empty())
            return fail(Fault::unsupported, image.name + " is an image, and " + why);
        shown_.push_back(std::move(image));
        return Done{};
    }

    /// Asks, and shows the answer as it comes, until Ctrl-C. After an error the question is forgotten.
    Status ask(std::string question) {
        conversation_.messages.push_back(message("user", std::move(question)));
        conversation_.messages.back().images = std::exchange(shown_, {});
        auto answer = this->answer();
        if (!answer) {
            conversation_.messages.pop_back();
            return fail(std::move(answer.error()));
        }
        if (Interrupts::came() && answer->content.empty())
            conversation_.messages.pop_back();  // the question, too: it was not wanted
        else
            conversation_.messages.push_back(std::move(*answer));
        return Done{};
    }

private:
    Sampling sampling() const {
        Sampling sampling = service_.sampling();
        sampling.seed = options_.seed ? *options_.seed : std::random_device()();
        if (options_.temperature) sampling.temperature = static_cast<float>(*options_.temperature);
        return sampling;
    }

    Result<Message> answer() {
        Interrupts::forget();
        const auto prompt = TRY(service_.prompt(conversation_));
        if (const auto room = check_room(service_, prompt, ""); !room)
            return fail(Fault::invalid_input, room.error().message);
        const auto ticket =
            TRY(service_.submit({.prompt = prompt.tokens,
                                 .max_tokens = static_cast<std::uint32_t>(options_.max_tokens.value_or(0)),
                                 .pictures = prompt.pictures,
                                 .sampling = sampling()},
                                &Interrupts::ring));
        Reply reply(service_.tokenizer(), {.reader = service_.reader(prompt, nullptr)});
        Speaker speaker(stdout, manner_);
        Message said = message("assistant", {});
        Status output = Done{};
        const auto say = [&](const std::vector<ReplyPiece>& pieces) {
            for (const auto& piece : pieces)
                if (piece.kind == ReplyPiece::Kind::content) said.content += piece.text;
            speaker.say(pieces);
            output = flush_output();
        };
        while (!reply.ended() && !Interrupts::came() && output) {
            const bool closed =
                ticket.outbox->closed();  // asked first: what it still holds is then all there is
            if (auto event = ticket.outbox->poll())
                say(reply.take(std::move(*event)));
            else if (closed)
                break;
            else
                Interrupts::wait();
        }
        if (!reply.ended()) say(reply.cut());
        if (reply.engine_runs()) service_.cancel(ticket.id, reply.keep_tokens());
        speaker.finish();
        if (reply.error()) return fail(*reply.error());
        TRY(output);

        notes(reply, speaker);
        return said;
    }

    void notes(const Reply& reply, Speaker& speaker) const {
        if (Interrupts::came()) {
            if (goes_on_) speaker.note("[stopped; Ctrl-C once more leaves]");
        } else if (reply.end() == ReplyEnd::length) {
            speaker.note("[cut: --max-tokens or the context]");
        }
        if (!options_.verbose || reply.usage().reply_tokens == 0) return;
        const auto usage = reply.usage();
        const auto timings = reply.timings();
        const auto speed = [](std::uint32_t tokens, double seconds) {
            return seconds > 0 ? tokens / seconds : 0.0;
        };
        speaker.note(fmt::format(
            "[prompt {} tokens, {} of them known, {:.1f}/s; answer {} tokens, {:.1f}/s]", usage.prompt_tokens,
            usage.cached_tokens, speed(usage.prompt_tokens - usage.cached_tokens, timings.prefill_seconds),
            usage.reply_tokens, speed(std::max(usage.reply_tokens, 1u) - 1, timings.decode_seconds)));
    }

    ModelService& service_;
    const Options& options_;
    const bool goes_on_;  // a conversation: Ctrl-C ends the answer alone
    const Manner manner_;
    Conversation conversation_;
    std::vector<MessageImage> shown_;  // not yet asked about
};

void show_help() {
    print(
        "/new         begins a new conversation\n"
        "/image FILE  shows the model an image with the next question\n"
        "/help        shows this\n"
        "/quit        leaves, as Ctrl-D does, and Ctrl-C twice\n"
        "Ctrl-C stops an answer, or gives up the line that is typed.\n"
        "Pasted lines stay together until Enter. Alt-Enter begins a new line, and so does\n"
        "Enter after a backslash.\n");
}

void attach(const std::string& path, Session& session) {
    auto file = read_image(path);
    const Status shown = file ? session.show(std::move(*file)) : fail(std::move(file.error()));
    print(shown ? path + " goes with the next question.\n" : shown.error().message + "\n");
}

std::string trimmed(const std::string& text) {
    constexpr const char* blanks = " \t\n";
    const auto begin = text.find_first_not_of(blanks);
    return begin == text.npos ? "" : text.substr(begin, text.find_last_not_of(blanks) - begin + 1);
}

/// Does what a line like "/new" says. @return false: it is a question.
bool obeys(const std::string& line, Session& session) {
    constexpr std::string_view image = "/image ";
    if (line.starts_with(image) && line.find('\n') == line.npos) {
        attach(line.substr(image.size()), session);
        return true;
    }
    if (line.front() != '/' || line.find_first_of(" \n/", 1) != line.npos) return false;
    if (line == "/help")
        show_help();
    else if (line == "/new")
        session.clear();
    else
        print("There is no " + line + "; /help shows what there is.\n");
    return true;
}

Status converse(Session& session, const LoadedModel& model) {
    print(model.service->name() + " is here. /help shows what can be done, Ctrl-D leaves.\n");
    if (!model.told_of_tower.empty()) print(printable(model.told_of_tower) + "\n");
    LineEditor editor(history_file());
    bool once = false;  // Ctrl-C has stopped an answer or met an empty line, and nothing was typed since
    for (;;) {
        const auto input = editor.read();
        if (input.kind == LineEditor::Input::Kind::end) return Done{};
        const std::string line = trimmed(input.text);
        const bool blank = line.empty();
        if (input.kind == LineEditor::Input::Kind::interrupted) {
            if (blank && once) return Done{};
            if (blank) print("(Ctrl-C once more leaves, as Ctrl-D does)\n");
            once = blank;
            continue;
        }
        once = false;
        if (line == "/quit" || line == "/exit") return Done{};
        if (blank || obeys(line, session)) continue;
        const LineEditor::Silence while_it_answers;
        if (const auto asked = session.ask(input.text); !asked) {
            if (asked.error().fault == Fault::device) return asked;
            print(asked.error().message + " (/new begins again)\n");
        }
        once = Interrupts::came();
    }
}

Status run(const Options& options) {
    if (options.think && options.no_think)
        return fail(Fault::invalid_input, "--think and --no-think contradict each other: give one of them");
    const bool interactive = !options.prompt && is_terminal(stdin);
    const std::string question = interactive ? "" : TRY(read_question(options.prompt, STDIN_FILENO));
    std::vector<MessageImage> images;
    for (const std::string& path : options.images) images.push_back(TRY(read_image(path)));
    const auto model = TRY(load_model(options.load));
    Session session(*model.service, options, interactive);
    for (MessageImage& image : images) TRY(session.show(std::move(image)));
    TRY(Interrupts::watch());
    if (interactive) return converse(session, model);
    if (!options.images.empty() && !model.told_of_tower.empty())
        std::fprintf(stderr, "%s\n", printable(model.told_of_tower).c_str());
    const Status asked = session.ask(question);
    if (Interrupts::came()) return fail(Fault::cancelled, "interrupted");
    return asked;
}

Action setup(Arguments& arguments) {
    const auto options = std::make_shared<Options>();
    arguments.words("WORDS", options->prompt,
                    "What to ask. Text from a pipe is put behind it; without either a conversation begins");
    declare_load_options(arguments, options->load);
    declare_tower_option(arguments, options->load);
    arguments.text("--system", options->system, "TEXT", "What the model is told before all else");
    arguments.texts("--image", options->images, "FILE",
                    "A PNG, JPEG or WebP that the question is about; may be given several times");
    arguments.flag("--think", options->think, "Lets the model think first, where it can");
    arguments.flag("--no-think", options->no_think, "Lets it answer at once");
    arguments.real("--temperature", options->temperature, 0, 2, "0 always takes the likeliest token",
                   "as the model's author chose");
    arguments.number("--seed", options->seed, 0, UINT64_MAX, "Repeats an answer", "another each time");
    arguments.number("--max-tokens", options->max_tokens, 1, 1u << 20, "The longest answer, in tokens",
                     "what the context leaves");
    arguments.flag("-v,--verbose", options->verbose, "Shows counts and speeds after each answer");
    return [options] { return run(*options); };
}

}  // namespace

extern const Command chat{
    "chat", "Asks a model, once or in a conversation",
    "Examples:\n"
    "  kapitsa chat                                a conversation; Ctrl-D leaves it\n"
    "  kapitsa chat \"Write a function that counts the vowels in a string\"\n"
    "  cat vowels.py | kapitsa chat \"Explain this:\"  the words, an empty line, the text\n"
    "  kapitsa chat -m MODEL --image photo.jpg \"What is in this picture?\"\n"
    "  kapitsa chat -m MODEL.gguf --mmproj mmproj-MODEL.gguf --image photo.jpg \"And in this one?\"\n"
    "  git diff | kapitsa chat --system \"Write a commit message\"\n"
    "  kapitsa chat --temperature 0 --max-tokens 64 \"Good morning!\"\n",
    setup};

}  // namespace kapitsa

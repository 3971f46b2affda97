// From the words of a command line to a command, and from its end to an exit code.
#include "cli/command.h"

#include <algorithm>
#include <cstdio>

#include "cli/output.h"
#include "formats/in_quotes.h"

namespace kapitsa {
namespace {

using Commands = std::span<const Command* const>;
using WordList = std::span<const char* const>;

constexpr int closed_pipe = 141;  // as a shell reports a program that SIGPIPE ended

constexpr const char* examples =
    "\n"
    "Examples:\n"
    "  kapitsa chat \"Write a function that counts vowels\"   one answer, from the built-in model\n"
    "  kapitsa chat                                         a conversation\n"
    "  kapitsa serve                                        an OpenAI-compatible server on port 8000\n"
    "  kapitsa help serve                                   more about a command, as kapitsa serve --help\n"
    "\n"
    "Exit codes: 0 done, 2 asked for what cannot be, 3 a broken file, 4 not supported, 5 out of memory,\n"
    "6 the device or the output failed, 130 interrupted.\n";

const Command* find(Commands commands, std::string_view name) {
    const auto found =
        std::ranges::find(commands, name, [](const Command* command) { return command->name; });
    return found == commands.end() ? nullptr : *found;
}

std::unexpected<Error> unknown(Commands commands, std::string_view name) {
    std::string names;
    for (const Command* command : commands) names += (names.empty() ? "" : ", ") + std::string(command->name);
    const std::string what = name.starts_with('-')
                                 ? "there is no option " + std::string(name) + " before a command"
                                 : "there is no command " + in_quotes(name);
    return fail(Fault::invalid_input, what + ": the commands are " + names + "; kapitsa --help says more");
}

std::string help(Commands commands) {
    std::string text =
        "kapitsa runs language models on this machine.\n\nUsage: kapitsa COMMAND [OPTIONS]\n\nCommands:\n";
    for (const Command* command : commands) text += help_row(command->name, command->purpose);
    return text + help_row("help [COMMAND]", "Shows this, or more about a command") + examples;
}

/// What a command's words ask for: to do it, or to explain it.
Status run(const Command& command, WordList words, bool explain) {
    Arguments arguments(std::string("kapitsa ") + command.name);
    const Action action = command.setup(arguments);
    const bool asked = TRY(arguments.parse(words)) == Arguments::Wanted::help;
    if (!explain && !asked) return action();
    print(std::string(command.purpose) + ".\n\n" + arguments.help() + "\n" + command.notes);
    return Done{};
}

Status run(Commands commands, WordList words) {
    std::string_view name = words.empty() ? "help" : words.front();
    if (!words.empty()) words = words.subspan(1);
    const bool explain = name == "help" || name == "--help" || name == "-h";
    if (explain && words.empty()) {  // also where nothing was asked for: there is no better answer
        print(help(commands));
        return Done{};
    }
    if (explain) {
        name = words.front();
        words = words.subspan(1);
    }
    if (name == "--version") name = "version";
    const Command* command = find(commands, name);
    return command ? run(*command, words, explain) : unknown(commands, name);
}

/// What was printed may be known to be lost only now.
int finish(Status status) {
    const Status output = flush_output();
    if (!output && output.error().fault == Fault::cancelled) return closed_pipe;
    if (status) status = output;
    if (status) return 0;
    if (status.error().fault != Fault::cancelled)
        std::fprintf(stderr, "kapitsa: %s\n", status.error().message.c_str());
    return exit_code(status.error().fault);
}

}  // namespace

int exit_code(Fault fault) {
    switch (fault) {
        case Fault::invalid_input: return 2;
        case Fault::corrupt_file: return 3;
        case Fault::unsupported: return 4;
        case Fault::out_of_memory: return 5;
        case Fault::device: return 6;
        case Fault::cancelled: return 130;  // as a shell reports a program that Ctrl-C ended
    }
    return 1;
}

int run_command_line(Commands commands, int count, const char* const* words) {
    const WordList all(words, static_cast<std::size_t>(count));
    return finish(run(commands, all.empty() ? all : all.subspan(1)));
}

}  // namespace kapitsa

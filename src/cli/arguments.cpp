// The option parser. CLI11 is included here and nowhere else: it is heavy, and it throws.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <vector>

#include "cli/command.h"

namespace kapitsa {
namespace {

class AppArguments final : public Arguments {
public:
    explicit AppArguments(CLI::App& app) : app_(app) {}

    void flag(const char* names, bool& into, const char* purpose) override {
        app_.add_flag(names, into, purpose);
    }
    void text(const char* names, std::string& into, const char* placeholder, const char* purpose) override {
        shown(app_.add_option(names, into, purpose), placeholder, into);
    }
    void number(const char* names, std::uint64_t& into, std::uint64_t least, std::uint64_t most,
                const char* purpose) override {
        auto* option = app_.add_option(names, into, purpose)->check(CLI::Range(least, most));
        shown(option, "N", into == 0 ? "" : std::to_string(into));
    }
    void real(const char* names, double& into, double least, double most, const char* purpose) override {
        shown(app_.add_option(names, into, purpose)->check(CLI::Range(least, most)), "X", "");
    }
    void positional(const char* name, std::string& into, const char* purpose) override {
        shown(app_.add_option(name, into, purpose), "TEXT", "");
    }
    std::function<bool()> given(const char* name) override {
        const CLI::Option* option = app_.get_option(name);
        return [option] { return option->count() > 0; };
    }

private:
    static void shown(CLI::Option* option, const std::string& placeholder, const std::string& standard) {
        option->option_text(standard.empty() ? placeholder : placeholder + " (" + standard + ")");
    }
    CLI::App& app_;
};

void describe(CLI::App& app) {
    app.name("kapitsa");
    app.description("kapitsa runs language models on this machine.");
    app.footer(
        "Examples:\n"
        "  kapitsa chat \"Write a function that counts vowels\"   one answer, from the built-in model\n"
        "  kapitsa chat                                         a conversation\n"
        "  kapitsa serve                                        an OpenAI-compatible server on port 8000\n"
        "\n"
        "kapitsa COMMAND --help says more about a command.\n");
    app.require_subcommand(1);
    app.set_help_flag("-h,--help", "Shows this help");
    app.get_formatter()->column_width(32);
}

/// Says what is wrong and where help is, on standard error.
int refuse(const CLI::App& app, const CLI::ParseError& error) {
    const auto chosen = app.get_subcommands();
    const std::string command = chosen.empty() ? "kapitsa" : "kapitsa " + chosen.front()->get_name();
    std::fprintf(stderr, "kapitsa: %s (%s --help shows what it understands)\n", error.what(),
                 command.c_str());
    return exit_code(Fault::invalid_input);
}

int finish(const Status& status) {
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

int run_command_line(std::span<const Command* const> commands, int count, const char* const* words) {
    CLI::App app;
    describe(app);
    std::vector<std::unique_ptr<AppArguments>> arguments;
    Action chosen;
    for (const Command* command : commands) {
        CLI::App* own = app.add_subcommand(command->name, command->purpose);
        own->footer(command->examples);
        arguments.push_back(std::make_unique<AppArguments>(*own));
        own->final_callback([&chosen, action = command->setup(*arguments.back())] { chosen = action; });
    }
    bool wants_version = false;
    app.add_flag("--version", wants_version, "Shows the version");
    // `kapitsa` alone asks for nothing in particular: the help is the best answer.
    if (count == 1) {
        std::fputs(app.help().c_str(), stdout);
        return 0;
    }
    if (count == 2 && std::string_view(words[1]) == "--version")
        return finish(version.setup(*arguments[0])());
    try {
        app.parse(count, words);
    } catch (const CLI::CallForHelp& help) {
        return app.exit(help);
    } catch (const CLI::ParseError& error) {
        return refuse(app, error);
    }
    return finish(chosen());
}

}  // namespace kapitsa

// A command of the program is a value: its name, what it is for, examples, and a function that declares its
// options and returns what to do. The option parser (CLI11) stays behind Arguments, in arguments.cpp alone.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/result.h"

namespace kapitsa {

/// What a command understands on its command line. Every `into` must live until the command has run, and
/// keeps the value it has where the option is not given: that is the default, and --help shows it.
class Arguments {
public:
    virtual ~Arguments() = default;
    /// names: "-v,--verbose"
    virtual void flag(const char* names, bool& into, const char* purpose) = 0;
    virtual void text(const char* names, std::string& into, const char* placeholder, const char* purpose) = 0;
    virtual void number(const char* names, std::uint64_t& into, std::uint64_t least, std::uint64_t most,
                        const char* purpose) = 0;
    virtual void real(const char* names, double& into, double least, double most, const char* purpose) = 0;
    /// One word without an option in front; may be left out.
    virtual void positional(const char* name, std::string& into, const char* purpose) = 0;
    /// Whether the option was given; asked for only once the command runs.
    virtual std::function<bool()> given(const char* name) = 0;
};

using Action = std::function<Status()>;

struct Command {
    const char* name;
    const char* purpose;
    const char* examples;  // shown under --help
    Action (*setup)(Arguments&);
};

extern const Command serve, chat, bench, list, version;

/// Parses the command line and runs the command it names. @return the exit code.
int run_command_line(std::span<const Command* const> commands, int count, const char* const* words);

/// The exit code of a program that ends with this fault. 0 is success, 1 is left to the shell's habits.
int exit_code(Fault fault);

}  // namespace kapitsa

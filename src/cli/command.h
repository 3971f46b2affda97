// A command of the program is a value: its name, what it is for, examples, and a function that declares its
// options and returns what to do.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "base/result.h"
#include "cli/arguments.h"

namespace kapitsa {

using Action = std::function<Status()>;

struct Command {
    const char* name;
    const char* purpose;
    const char* notes;  // shown at the end of --help: examples, at the least
    Action (*setup)(Arguments&);
};

extern const Command serve, chat, bench, check, list, import_command, rm, version;

/// Runs the command that the words name, and says on standard error why it could not. `words` as main has
/// them.
/// @return the exit code.
int run_command_line(std::span<const Command* const> commands, int count, const char* const* words);

/// The exit code of a program that ends with this fault. 0 is success, 1 is left to the shell's habits.
int exit_code(Fault fault);

}  // namespace kapitsa

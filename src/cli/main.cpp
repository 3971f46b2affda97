// The program: a table of commands.
#include <array>
#include <cstdio>
#include <exception>

#include "cli/command.h"
#include "cli/output.h"

int main(int count, char** words) {
    using namespace kapitsa;
    hold_standard_streams();
    const std::array commands{&chat, &serve, &list, &import_command, &rm, &bench, &check, &version};
    try {
        return run_command_line(commands, count, words);
    } catch (const std::exception& exception) {  // of the standard library: no memory, no thread
        std::fprintf(
            stderr,
            "kapitsa: the system did not give what was needed (%s): free memory, or raise the limits "
            "of this shell (ulimit -a)\n",
            exception.what());
        return exit_code(Fault::out_of_memory);
    }
}

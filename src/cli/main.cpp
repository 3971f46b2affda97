// The program: a table of commands.
#include <array>

#include "cli/command.h"
#include "cli/output.h"

int main(int count, char** words) {
    using namespace kapitsa;
    hold_standard_streams();
    const std::array commands{&chat, &serve, &list, &import_command, &rm, &bench, &check, &version};
    return run_command_line(commands, count, words);
}

// The program: a table of commands.
#include <array>

#include "cli/command.h"

int main(int count, char** words) {
    using namespace kapitsa;
    const std::array commands{&chat, &serve, &list, &bench, &version};
    return run_command_line(commands, count, words);
}

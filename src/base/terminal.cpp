#include "base/terminal.h"

#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace kapitsa {
namespace {

std::string_view environment(const char* name) {
    const char* value = std::getenv(name);
    return value ? value : "";
}

}  // namespace

bool is_terminal(std::FILE* stream) { return ::isatty(::fileno(stream)) == 1; }

bool shows_colour(std::FILE* stream) {
    const std::string_view kind = environment("TERM");
    return is_terminal(stream) && environment("NO_COLOR").empty() && !kind.empty() && kind != "dumb";
}

}  // namespace kapitsa

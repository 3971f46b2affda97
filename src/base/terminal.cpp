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

bool obeys_escapes(std::FILE* stream) {
    const std::string_view kind = environment("TERM");
    return is_terminal(stream) && !kind.empty() && kind != "dumb";
}

bool shows_colour(std::FILE* stream) { return obeys_escapes(stream) && environment("NO_COLOR").empty(); }

}  // namespace kapitsa

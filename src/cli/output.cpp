#include "cli/output.h"

#include <fcntl.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace kapitsa {

void print(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

Status flush_output() {
    static int reason = 0;  // the first one: later calls may find an empty buffer and nothing to complain of
    errno = 0;
    if (std::fflush(stdout) != 0 && reason == 0) reason = errno;
    if (!std::ferror(stdout)) return Done{};
    if (reason == EPIPE) return fail(Fault::cancelled, "nobody reads standard output any more");
    return fail(Fault::device, std::string("standard output cannot be written") +
                                   (reason ? std::string(": ") + std::strerror(reason) : ""));
}

void hold_standard_streams() {
    for (const int stream : {0, 1, 2})
        if (::fcntl(stream, F_GETFD) == -1) ::open("/dev/null", stream == 0 ? O_WRONLY : O_RDONLY);
}

}  // namespace kapitsa

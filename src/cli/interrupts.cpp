#include "cli/interrupts.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>

namespace kapitsa {
namespace {

int heard = -1, rung = -1;  // the ends of the pipe
std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler writes it");

void on_interrupt(int) {
    const int before = errno;
    interrupted = true;
    Interrupts::ring();
    errno = before;
}

bool make_pipe() {
    int ends[2];
    if (::pipe(ends) != 0) return false;
    heard = ends[0], rung = ends[1];
    for (const int end : ends) ::fcntl(end, F_SETFD, FD_CLOEXEC);
    return ::fcntl(rung, F_SETFL, O_NONBLOCK) == 0;  // a full pipe has rung enough
}

}  // namespace

Status Interrupts::watch() {
    struct sigaction action = {};
    action.sa_handler = on_interrupt;
    action.sa_flags = SA_RESTART;
    if ((heard == -1 && !make_pipe()) || ::sigaction(SIGINT, &action, nullptr) != 0)
        return fail(Fault::out_of_memory, std::string("cannot wait for Ctrl-C: ") + std::strerror(errno));
    return Done{};
}

bool Interrupts::came() { return interrupted; }
void Interrupts::forget() { interrupted = false; }

void Interrupts::ring() {
    const char note = 0;
    [[maybe_unused]] const auto written = ::write(rung, &note, 1);
}

void Interrupts::wait() {
    char notes[256];
    while (::read(heard, notes, sizeof notes) < 0 && errno == EINTR) {
    }
}

}  // namespace kapitsa

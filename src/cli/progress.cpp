#include "cli/progress.h"

#include <fmt/core.h>

#include <cstdio>

#include "base/terminal.h"

namespace kapitsa {

void ProgressLine::show(std::uint64_t done, std::uint64_t of, const char* unit) {
    using namespace std::chrono_literals;
    const bool changes = obeys_escapes(stderr);
    const auto now = Clock::now();
    if (now - shown_ < (changes ? 200ms : 30s)) return;
    shown_ = now;
    const double took = std::chrono::duration<double>(now - start_).count();
    const double left = done == 0 ? 0 : took / static_cast<double>(done) * static_cast<double>(of - done);
    fmt::print(stderr, "{}{}: {} of {} {}, {:.0f} s left{}", changes ? "\r\033[K" : "", what_, done, of, unit,
               left, changes ? "" : "\n");
    std::fflush(stderr);
    on_line_ = changes;
}

void ProgressLine::clear() {
    if (!on_line_) return;
    fmt::print(stderr, "\r\033[K");
    std::fflush(stderr);
    on_line_ = false;
}

}  // namespace kapitsa

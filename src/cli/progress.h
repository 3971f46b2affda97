// How far long work has come, on standard error: one line that changes on a terminal, else a line now and
// then.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace kapitsa {

class ProgressLine {
public:
    explicit ProgressLine(std::string what) : what_(std::move(what)) {}
    ~ProgressLine() { clear(); }
    ProgressLine(const ProgressLine&) = delete;

    void show(std::uint64_t done, std::uint64_t of, const char* unit);
    void clear();

private:
    using Clock = std::chrono::steady_clock;
    std::string what_;
    Clock::time_point start_ = Clock::now(), shown_ = start_;
    bool on_line_ = false;
};

}  // namespace kapitsa

#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "base/terminal.h"

namespace kapitsa {
namespace {

spdlog::level::level_enum to_spdlog(LogLevel level) {
    switch (level) {
        case LogLevel::debug: return spdlog::level::debug;
        case LogLevel::info: return spdlog::level::info;
        case LogLevel::warning: return spdlog::level::warn;
        case LogLevel::error: return spdlog::level::err;
    }
    return spdlog::level::err;
}

spdlog::logger& logger() {
    static const auto instance = [] {
        const auto mode = shows_colour(stderr) ? spdlog::color_mode::always : spdlog::color_mode::never;
        auto made = std::make_shared<spdlog::logger>(
            "kapitsa", std::make_shared<spdlog::sinks::stderr_color_sink_mt>(mode));
        made->set_pattern("%H:%M:%S %^%l%$ %v");
        made->set_level(spdlog::level::warn);
        return made;
    }();
    return *instance;
}

}  // namespace

void set_log_level(LogLevel level) { logger().set_level(to_spdlog(level)); }
void log(LogLevel level, std::string_view message) { logger().log(to_spdlog(level), message); }

}  // namespace kapitsa

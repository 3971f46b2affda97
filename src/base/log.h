// The log: lines for the person who runs the program, on standard error. Never the contents of prompts, never
// keys.
#pragma once

#include <string_view>

namespace kapitsa {

enum class LogLevel { debug, info, warning, error };

/// Lines below `level` are dropped. The default is LogLevel::warning; `serve --verbose` lowers it.
void set_log_level(LogLevel level);
void log(LogLevel level, std::string_view message);

inline void log_debug(std::string_view message) { log(LogLevel::debug, message); }
inline void log_info(std::string_view message) { log(LogLevel::info, message); }
inline void log_warning(std::string_view message) { log(LogLevel::warning, message); }
inline void log_error(std::string_view message) { log(LogLevel::error, message); }

}  // namespace kapitsa

// CHECK is for our own mistakes: always on, it names the condition and aborts. No input may reach one.
#pragma once

namespace kapitsa {
[[noreturn]] void check_failed(const char* condition, const char* file, int line);
}

#define CHECK(...)                                                                     \
    do {                                                                               \
        if (!(__VA_ARGS__)) ::kapitsa::check_failed(#__VA_ARGS__, __FILE__, __LINE__); \
    } while (false)

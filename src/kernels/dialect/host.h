// What the words of a kernel file mean to the host: argument structs are plain structs, and an ENTRY row is a
// typed handle that accepts no other arguments. (A device dialect gives the same words their meaning there.)
#pragma once

#include <cstdint>

namespace kapitsa {

using uint = std::uint32_t;

// Storage of 16 bits: on the host they are only carried.
struct half {
    std::uint16_t bits;
};
struct bfloat {
    std::uint16_t bits;
};

template <typename T>
using In = const T*;  // read from a buffer of the device
template <typename T>
using Out = T*;  // written to one

/// A kernel's name, and the only argument struct it accepts.
template <typename Arguments>
struct Kernel {
    const char* name;
};

}  // namespace kapitsa

#define ENTRY(entry, ...) inline constexpr ::kapitsa::Kernel<__VA_ARGS__> entry{#entry};

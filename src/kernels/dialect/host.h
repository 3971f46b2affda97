// What the words of a kernel file (dialect.h) mean to the host: argument structs are plain structs, and an
// ENTRY row is a typed handle that accepts no other arguments.
#pragma once

#include <bit>
#include <cstdint>

#include "base/float16.h"

#define KERNEL_HOST

namespace kapitsa {

using uint = std::uint32_t;
using ushort = std::uint16_t;
using uchar = std::uint8_t;
using ulong = std::uint64_t;

// Storage of 16 bits: it is carried, and read as a float.
struct half {
    std::uint16_t bits;
    explicit constexpr operator float() const { return float_from_f16(bits); }
};
struct bfloat {
    std::uint16_t bits;
    explicit constexpr operator float() const { return std::bit_cast<float>(std::uint32_t(bits) << 16); }
};

template <typename T>
using In = const T*;  // read from a buffer of the device
template <typename T>
using Out = T*;  // written to one

constexpr float float_of_bits(uint bits) { return std::bit_cast<float>(bits); }
constexpr float float_of_half_bits(uint bits) { return float_from_f16(std::uint16_t(bits)); }

/// How a launch is cut on a device with threadgroups: how many groups, of how many threads. A backend that
/// cuts work its own way ignores it.
struct Grid {
    std::uint32_t x = 1, y = 1, z = 1, threads = 32;
};

/// A kernel's name, and the only argument struct it accepts.
template <typename Arguments>
struct Kernel {
    const char* name;
};

constexpr std::uint32_t parts_of(std::uint32_t whole, std::uint32_t part) {
    return whole / part + (whole % part != 0);
}

}  // namespace kapitsa

#define INLINE constexpr
#define TABLE inline constexpr
#define GRID(Arguments, ...) \
    constexpr ::kapitsa::Grid grid_of(const Arguments& args) { return {__VA_ARGS__}; }
#define GRID_OF_ANY(Type, Arguments, ...)                      \
    template <typename Type>                                   \
    constexpr ::kapitsa::Grid grid_of(const Arguments& args) { \
        return {__VA_ARGS__};                                  \
    }
#define ENTRY(entry, body, Arguments, Scratch) inline constexpr ::kapitsa::Kernel<Arguments> entry{#entry};

// What the words of a kernel file mean to the host: argument structs are plain structs, and an ENTRY row is a
// typed handle that accepts no other arguments. (A device dialect gives the same words their meaning there.)
#pragma once

#include <bit>
#include <cstdint>

#include "base/float16.h"

namespace kapitsa {

using uint = std::uint32_t;
using ushort = std::uint16_t;
using uchar = std::uint8_t;

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

constexpr float float_of_bits(uint bits) { return std::bit_cast<float>(bits); }
constexpr float float_of_half_bits(uint bits) { return float_from_f16(std::uint16_t(bits)); }

/// A kernel's name, and the only argument struct it accepts.
template <typename Arguments>
struct Kernel {
    const char* name;
};

}  // namespace kapitsa

#define INLINE constexpr        // a function of a kernel
#define TABLE inline constexpr  // an array of constants
#define ENTRY(entry, ...) inline constexpr ::kapitsa::Kernel<__VA_ARGS__> entry{#entry};

// What the words of a kernel file (dialect.h) mean to the emulator: the host's meaning, and bodies that run
// on fibers. STRICT_ADDRESS_SPACES lets clang refuse what Metal would: a pointer that has lost its address
// space.
#pragma once

#include <atomic>
#include <cmath>
#include <limits>

#include "kernels/dialect/fibers.h"
#include "kernels/dialect/host.h"

#define BODY inline
#define UNROLL

namespace kapitsa {

template <typename T>
using Args = const T&;
template <typename T>
using Shared = T&;
template <typename T>
using SharedArray = T*;
template <typename T>
using Local = T*;
struct None {};

// NOLINTBEGIN(readability-identifier-naming): the words of GPUs
struct uint3 {
    uint x, y, z;
};
struct float4 {
    float x, y, z, w;
};
struct uint4 {
    uint x, y, z, w;
};
// NOLINTEND(readability-identifier-naming)

struct Position {
    uint3 group;
    uint index, lane, simdgroup, simdgroups;
};

template <typename To, typename From>
BODY To bits(From value) {
    return std::bit_cast<To>(value);
}

BODY float exp(float x) { return std::exp(x); }
BODY float log(float x) { return std::log(x); }
BODY float sqrt(float x) { return std::sqrt(x); }
BODY float rsqrt(float x) { return 1.0f / std::sqrt(x); }
BODY float tanh(float x) { return std::tanh(x); }
BODY float sin(float x) { return std::sin(x); }
BODY float cos(float x) { return std::cos(x); }
BODY float abs(float x) { return std::fabs(x); }
BODY float fma(float x, float y, float z) { return std::fma(x, y, z); }
BODY float min(float x, float y) { return std::fmin(x, y); }
BODY float max(float x, float y) { return std::fmax(x, y); }
BODY uint min(uint x, uint y) { return x < y ? x : y; }
BODY uint max(uint x, uint y) { return x < y ? y : x; }
BODY int min(int x, int y) { return x < y ? x : y; }
BODY int max(int x, int y) { return x < y ? y : x; }
BODY bool isnan(float x) { return x != x; }

// A copy by bytes, so that an address which hardware would refuse is found: UBSan sees the cast.
BODY float4 load4(In<float> p) {
    CHECK(reinterpret_cast<std::uintptr_t>(p) % 16 == 0);
    return {p[0], p[1], p[2], p[3]};
}
BODY uint4 load4(In<uint> p) {
    CHECK(reinterpret_cast<std::uintptr_t>(p) % 16 == 0);
    return {p[0], p[1], p[2], p[3]};
}

BODY void group_barrier() { emulator::Group::current().barrier(); }
BODY void simd_barrier() { emulator::Group::current().simd_barrier(); }
template <typename T>
BODY T simd_shuffle(T value, uint lane) {
    return emulator::Group::current().exchange(value, "simd_shuffle")[lane % 32];
}
template <typename T>
BODY T simd_shuffle_xor(T value, uint mask) {
    auto& group = emulator::Group::current();
    return group.exchange(value, "simd_shuffle_xor")[group.index() % 32 ^ mask];
}
/// The butterfly of the CUDA dialect, so that the two agree to the bit. `join` is commutative: all lanes come
/// to one result.
template <typename T, typename Join>
BODY T simd_butterfly(T value, const char* word, Join join) {
    const auto values = emulator::Group::current().exchange(value, word);
    T lanes[16];
    for (uint i = 0; i < 16; ++i) lanes[i] = join(values[i], values[i + 16]);
    for (uint step = 8; step > 0; step /= 2)
        for (uint i = 0; i < step; ++i) lanes[i] = join(lanes[i], lanes[i + step]);
    return lanes[0];
}
template <typename T>
BODY T simd_sum(T value) {
    return simd_butterfly(value, "simd_sum", [](T a, T b) { return a + b; });
}
template <typename T>
BODY T simd_max(T value) {
    return simd_butterfly(value, "simd_max", [](T a, T b) { return max(a, b); });
}
BODY uint simd_ballot(bool value) {
    const auto values = emulator::Group::current().exchange(uint(value), "simd_ballot");
    uint word = 0;
    for (uint i = 0; i < 32; ++i) word |= values[i] << i;
    return word;
}
BODY bool simd_any(bool value) { return simd_ballot(value) != 0; }
BODY uint count_bits(uint word) { return uint(std::popcount(word)); }

namespace emulator {

/// A kernel as the emulator runs it: one group of a launch.
struct Entry {
    const char* name;
    void (*run)(Group& fibers, const char* name, const void* args, uint3 group, uint threads);
};

/// The entries of this file of the program, in the order of their rows.
namespace {
[[maybe_unused]] std::vector<Entry>& entries_here() {
    static std::vector<Entry> all;
    return all;
}
}  // namespace

template <typename Arguments, typename Scratch, typename Body>
void run_group(Group& fibers, const char* name, const void* args, uint3 group, uint threads, Body) {
    struct Context {
        const Arguments& args;
        uint3 group;
        uint threads;
        Scratch& scratch;
    };
    alignas(16) static thread_local Scratch scratch;
    static_assert(sizeof(Scratch) <= 32 * 1024 && std::is_trivially_copyable_v<Scratch>);
    std::memset(static_cast<void*>(&scratch), 0xff, sizeof scratch);  // unset floats are NaN
    const Context context{*static_cast<const Arguments*>(args), group, threads, scratch};
    fibers.run(
        name, threads,
        [](const void* raw, std::uint32_t i) {
            const auto& at = *static_cast<const Context*>(raw);
            Body()(at.args, Position{at.group, i, i % 32, i / 32, at.threads / 32}, at.scratch);
        },
        &context);
}

}  // namespace emulator
}  // namespace kapitsa

#undef ENTRY
#define ENTRY(entry, body, Arguments, Scratch)                                                              \
    inline constexpr ::kapitsa::Kernel<Arguments> entry{#entry};                                            \
    [[maybe_unused]] static const auto& entry##_row =                                                       \
        ::kapitsa::emulator::entries_here().emplace_back(::kapitsa::emulator::Entry{                        \
            #entry, [](::kapitsa::emulator::Group& fibers, const char* name, const void* args,              \
                       ::kapitsa::uint3 group, ::kapitsa::uint threads) {                                   \
                ::kapitsa::emulator::run_group<Arguments, Scratch>(                                         \
                    fibers, name, args, group, threads,                                                     \
                    [](const Arguments& a, const ::kapitsa::Position& at, Scratch& s) { body(a, at, s); }); \
            }});

// A native kernel of the CPU: the same name and the same argument struct as its kernel file, cut into units
// of work that do not depend on each other. Which thread computes a unit, and how many there are, changes no
// result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "kernels/dialect/host.h"

namespace kapitsa::cpu {

/// Memory of one worker, kept between launches. It grows in the first steps and then no more.
class Scratch {
public:
    explicit Scratch(bool wide_sums) : wide_sums_(wide_sums) {}
    /// Whether the backend is "cpu-f64": the sums of matrix products and norms are taken in f64 and rounded
    /// once. Many times slower, and there to measure how far the sums in f32 are from it.
    bool wide_sums() const { return wide_sums_; }

    /// Room for this many floats at a cache line's alignment; unset. The last call's room ends with the next
    /// call.
    float* floats(std::size_t count);

private:
    struct Free {
        void operator()(void* memory) const;
    };
    std::unique_ptr<float, Free> memory_;
    std::size_t count_ = 0;
    bool wide_sums_;
};

struct Native {
    std::string_view name;
    std::uint32_t (*units)(const void* args);
    void (*run)(const void* args, std::uint32_t first, std::uint32_t last,
                Scratch& scratch);  // units [first, last)
};

/// A row of a native table, typed by the kernel's own handle.
template <auto units, auto run, typename Args>
constexpr Native native(Kernel<Args> kernel) {
    return {kernel.name, [](const void* args) { return units(*static_cast<const Args*>(args)); },
            [](const void* args, std::uint32_t first, std::uint32_t last, Scratch& scratch) {
                run(*static_cast<const Args*>(args), first, last, scratch);
            }};
}

inline std::uint32_t divide_up(std::uint32_t a, std::uint32_t b) { return (a + b - 1) / b; }

/// The outputs of a matrix product that one unit computes.
constexpr std::uint32_t multiply_block_outputs = 16;

template <typename Args>
std::uint32_t multiply_units(const Args& args) {
    std::uint32_t units = 0;
    for (uint p = 0; p < args.count; ++p) units += divide_up(args.parts[p].outputs, multiply_block_outputs);
    return units;
}

template <typename Args>
std::uint32_t multiply_expert_units(const Args& args) {
    return args.group_count * multiply_units(args.matrix);
}

// One table a file; natives.cpp puts them together.
std::span<const Native> attend_natives();
std::span<const Native> choose_tokens_natives();
std::span<const Native> delta_net_natives();
std::span<const Native> delta_chunks_natives();
std::span<const Native> elementwise_natives();
std::span<const Native> embed_natives();
std::span<const Native> experts_natives();
std::span<const Native> mamba2_natives();
std::span<const Native> mamba2_chunks_natives();
std::span<const Native> multiply_affine_natives();
std::span<const Native> multiply_blocks_natives();
std::span<const Native> multiply_dense_natives();
std::span<const Native> ngrams_natives();
std::span<const Native> rms_norm_natives();
std::span<const Native> short_conv_natives();
std::span<const Native> sparse_attend_natives();
std::span<const Native> streams_natives();
std::span<const Native> unit_norm_natives();

}  // namespace kapitsa::cpu

// What one rendering may use. A template is input like any other: it can loop, grow and nest, and every
// such thing is counted here and refused before it hurts.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/result.h"

namespace kapitsa::jinja {

struct Limits {
    std::uint64_t steps = 3'000'000;       // nodes evaluated, elements visited
    std::size_t bytes = 256u << 20;        // text and elements made, all together
    std::size_t output_bytes = 96u << 20;  // of one piece of output
    unsigned depth = 400;                  // nested evaluations; each costs stack
};

/// How deep values may nest: printing, comparing and freeing them recurses.
inline constexpr unsigned value_depth_limit = 200;

class Budget {
public:
    explicit Budget(const Limits& limits) : limits_(limits) {}

    Status step(std::uint64_t steps = 1) {
        steps_ += steps;
        if (steps_ > limits_.steps) return fail(Fault::invalid_input, "the template runs for too long");
        return Done{};
    }
    /// To be asked before the memory is taken.
    Status take(std::size_t bytes) {
        if (bytes > limits_.bytes - bytes_)
            return fail(Fault::invalid_input, "the template uses too much memory");
        bytes_ += bytes;
        return Done{};
    }
    const Limits& limits() const { return limits_; }

private:
    Limits limits_;
    std::uint64_t steps_ = 0;
    std::size_t bytes_ = 0;
};

}  // namespace kapitsa::jinja

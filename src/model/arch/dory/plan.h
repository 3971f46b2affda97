// The order in which a looped model runs its layers, as data: the input block once, the recurrent block
// several times with the same weights, the output block once.
#pragma once

#include <cstdint>
#include <vector>

namespace kapitsa::looped {

struct Blocks {
    std::uint32_t input = 0, recurrent = 0, output = 0;  // layers of each, in this order in the checkpoint
    std::uint32_t loops = 1;                             // how often the recurrent block runs

    std::uint32_t layers() const { return input + recurrent + output; }
};

struct PlanStep {
    std::uint32_t layer = 0;  // whose weights it has
    std::uint32_t place = 0;  // of its keys and values, if it attends: each loop has places of its own
    bool begins_block = false, begins_loop = false, ends_loop = false;  // of the recurrent block
};

struct Plan {
    std::vector<PlanStep> steps;
    std::uint32_t places = 0;  // for keys and values
};

/// @param attends by layer: whether it has keys and values
Plan make_plan(const Blocks& blocks, const std::vector<bool>& attends);

}  // namespace kapitsa::looped

// The numbers of a looped model on the unit sphere, from its config.json.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "model/arch/dory/plan.h"

namespace kapitsa::looped {

struct LayerNumbers {
    bool attends = false, windowed = false;  // it attends, or is a feed-forward layer
    std::uint32_t profile = 0;               // which of `rope_thetas`, where it attends
};

struct Numbers {
    std::uint32_t vocabulary = 0, width = 0, context = 0;
    std::uint32_t inner = 0;  // of the feed-forward layers
    std::uint32_t heads = 0, kv_heads = 0, head_width = 0;
    std::uint32_t window = 0;  // tokens that a windowed layer sees, the row itself among them
    std::array<double, 2> rope_thetas = {};
    double init_std = 0;    // by which most stored vectors are divided
    double alpha_init = 0;  // by which the shares of the steps are multiplied
    double gate_init = 0;   // by whose root the scales of the output gates are multiplied
    Blocks blocks;
    std::vector<LayerNumbers> layers;
};

/// Fault::unsupported where the file asks for arithmetic that is not known here.
Result<Numbers> read_numbers(const Json& config);

}  // namespace kapitsa::looped

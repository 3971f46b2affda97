// How far two distributions over one vocabulary are from each other, in f64 from logits in f32.
#pragma once

#include <cstdint>
#include <span>

#include "base/bytes.h"

namespace kapitsa {

bool all_finite(std::span<const float> logits);

/// -log of the probability that the logits give the token, in nats.
double surprise(std::span<const float> logits, Token token);

struct Divergence {
    double kl = 0;          // KL(p || q) in nats over the whole vocabulary; never below 0
    bool same_top = false;  // whether both would choose the same token
    double logit = 0;       // the largest difference of a logit
};

/// Of the distributions that these finite logits, as many of one as of the other, stand for.
Divergence divergence(std::span<const float> p, std::span<const float> q);

/// What was seen at many positions.
struct Spread {
    std::uint64_t positions = 0, same_top = 0;
    double kl_sum = 0, kl_max = 0, logit_max = 0;

    void add(const Divergence& at);
    void add(const Spread& more);
    double kl_mean() const { return positions == 0 ? 0 : kl_sum / static_cast<double>(positions); }
    double agreement() const {
        return positions == 0 ? 1 : static_cast<double>(same_top) / static_cast<double>(positions);
    }
};

}  // namespace kapitsa

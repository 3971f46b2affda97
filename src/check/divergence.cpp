#include "check/divergence.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"

namespace kapitsa {
namespace {

/// p of each token, and the log of what the exponentials sum to.
struct Softmax {
    std::vector<double> p;
    double log_sum = 0;
};

Softmax softmax(std::span<const float> logits) {
    Softmax result;
    const double most = *std::ranges::max_element(logits);
    double sum = 0;
    for (const float logit : logits) sum += result.p.emplace_back(std::exp(double(logit) - most));
    for (double& p : result.p) p /= sum;
    result.log_sum = most + std::log(sum);
    return result;
}

std::size_t top(std::span<const float> logits) {
    return static_cast<std::size_t>(std::ranges::max_element(logits) - logits.begin());
}

}  // namespace

bool all_finite(std::span<const float> logits) {
    return std::ranges::all_of(logits, [](float logit) { return std::isfinite(logit); });
}

double surprise(std::span<const float> logits, Token token) {
    CHECK(token >= 0 && std::size_t(token) < logits.size());
    const double most = *std::ranges::max_element(logits);
    double sum = 0;
    for (const float logit : logits) sum += std::exp(double(logit) - most);
    return std::log(sum) + most - double(logits[std::size_t(token)]);
}

/// With d = p's logits - q's and e = d - (the mean of d under p), KL(p || q) = log(1 + the mean under p of
/// (exp(-e) - 1 + e)). Every term is at least 0, so that nothing cancels: a divergence of 1e-14, as between
/// two orders of the same sums, keeps its digits, where the sum of p log(p / q) would be rounding alone.
Divergence divergence(std::span<const float> p, std::span<const float> q) {
    CHECK(p.size() == q.size() && !p.empty());
    Divergence result{.kl = 0, .same_top = top(p) == top(q), .logit = 0};
    const Softmax of_p = softmax(p);
    double mean = 0;
    for (std::size_t i = 0; i < p.size(); ++i) {
        const double d = double(p[i]) - double(q[i]);
        mean += of_p.p[i] * d;
        result.logit = std::max(result.logit, std::fabs(d));
    }
    if (result.logit < 64) {
        double excess = 0;
        for (std::size_t i = 0; i < p.size(); ++i) {
            const double e = double(p[i]) - double(q[i]) - mean;
            excess += of_p.p[i] * std::max(0.0, std::expm1(-e) + e);
        }
        result.kl = std::log1p(excess);
        return result;
    }
    // Logits that far apart would overflow the exponentials, and have digits to spare.
    const Softmax of_q = softmax(q);
    result.kl = std::max(0.0, mean - of_p.log_sum + of_q.log_sum);
    return result;
}

void Spread::add(const Divergence& at) {
    add(Spread{
        .positions = 1, .same_top = at.same_top, .kl_sum = at.kl, .kl_max = at.kl, .logit_max = at.logit});
}

void Spread::add(const Spread& more) {
    positions += more.positions;
    same_top += more.same_top;
    kl_sum += more.kl_sum;
    kl_max = std::max(kl_max, more.kl_max);
    logit_max = std::max(logit_max, more.logit_max);
}

}  // namespace kapitsa

#include "engine/sampler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "base/check.h"
#include "engine/random.h"

namespace kapitsa {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr std::size_t block = 1024;  // weights to a partial sum
constexpr std::size_t lanes = 8;     // partial sums side by side, for the vector unit; the order is fixed

/// e^x for x <= 0, to about 2e-7 of it; 0 below -87. The library's differ between machines, this does not.
/// Source: expf of the Cephes library, S. Moshier. The bound is kept by integer arithmetic on the bits, since
/// compilers do not vectorise branches on floats that might trap.
inline float exp_negative(float x) {
    constexpr std::int32_t bound = std::bit_cast<std::int32_t>(87.0f);
    const std::int32_t magnitude = std::bit_cast<std::int32_t>(x) & 0x7fffffff;
    const float bounded = -std::bit_cast<float>(std::min(magnitude, bound));
    const auto power = std::int32_t(bounded * 1.44269504f - 0.5f);  // to nearest, for truncation is upwards
    const float whole = float(power);
    const float r = (bounded - whole * 0.693359375f) - whole * -2.12194440e-4f;
    float y = 1.9875691500e-4f;
    y = y * r + 1.3981999507e-3f;
    y = y * r + 8.3334519073e-3f;
    y = y * r + 4.1665795894e-2f;
    y = y * r + 1.6666665459e-1f;
    y = y * r + 5.0000001201e-1f;
    y = y * (r * r) + r + 1.0f;
    const float scaled = y * std::bit_cast<float>((power + 127) << 23);
    return std::bit_cast<float>(std::bit_cast<std::int32_t>(scaled) & -std::int32_t(magnitude <= bound));
}

/// The column of the highest logit, the lowest among equals; nothing when the row holds NaN or +infinity,
/// or nothing but -infinity. One pass: a block is looked at again only when it holds a new best.
std::optional<std::size_t> best_column(std::span<const float> logits) {
    float best = -infinity;
    std::size_t column = 0;
    for (std::size_t first = 0; first < logits.size(); first += block) {
        const auto part = logits.subspan(first, std::min(block, logits.size() - first));
        std::array<float, lanes> high;
        std::array<std::int32_t, lanes> sound;
        high.fill(-infinity);
        sound.fill(-1);
        std::size_t i = 0;
        for (; i + lanes <= part.size(); i += lanes)
            for (std::size_t lane = 0; lane < lanes; ++lane) {
                const float x = part[i + lane];
                high[lane] = x > high[lane] ? x : high[lane];
                sound[lane] &= -std::int32_t(x < infinity);  // false for NaN as well
            }
        for (; i < part.size(); ++i) {
            high[0] = std::max(high[0], part[i]);
            sound[0] &= -std::int32_t(part[i] < infinity);
        }
        if (std::ranges::find(sound, 0) != sound.end()) return std::nullopt;
        if (const float highest = std::ranges::max(high); highest > best) {
            best = highest;
            column = first + std::size_t(std::ranges::find(part, highest) - part.begin());
        }
    }
    if (best == -infinity) return std::nullopt;
    return column;
}

/// Bias and penalties, in place. A bias is bounded, so that no sum of finite numbers becomes infinite.
/// Sources: the OpenAI API reference (presence, frequency); Keskar et al., "CTRL", 2019, and transformers
/// (repetition: towards 0 from above, away from it below).
void bend(std::span<float> logits, const Sampling& sampling, const TokenCounts& counts) {
    for (const auto& [token, bias] : sampling.logit_bias)
        if (std::size_t(token) < logits.size()) logits[token] += std::clamp(bias, -1e30f, 1e30f);
    if (!counts_reply(sampling)) return;
    for (const auto& [token, in_reply] : counts.entries()) {
        if (std::size_t(token) >= logits.size()) continue;
        float& logit = logits[token];
        logit = logit > 0 ? logit / sampling.repetition_penalty : logit * sampling.repetition_penalty;
        if (in_reply == 0) continue;
        logit -= float(in_reply) * sampling.frequency_penalty;
        logit -= sampling.presence_penalty;
    }
}

/// Where a number drawn from [0, sum of weights) falls. Never on a weight of 0, unless all are.
template <typename Weight>
std::size_t find_weight(std::size_t weights, double target, Weight weight) {
    std::size_t last = 0;
    for (std::size_t i = 0; i < weights; ++i) {
        const double here = weight(i);
        if (target < here) return i;
        target -= here;
        if (here > 0) last = i;
    }
    return last;  // the sum was rounded up
}

}  // namespace

Status check_sampling(const Sampling& sampling, std::uint32_t vocabulary) {
    const auto within = [](float value, float low, float high, const char* name) -> Status {
        if (value >= low && value <= high) return Done{};  // false for NaN
        return fail(Fault::invalid_input, std::string(name) + " must lie between " + std::to_string(low) +
                                              " and " + std::to_string(high) + ", and is " +
                                              std::to_string(value));
    };
    TRY(within(sampling.temperature, 0, 1000, "temperature"));
    TRY(within(sampling.top_p, 0, 1, "top_p"));
    TRY(within(sampling.min_p, 0, 1, "min_p"));
    TRY(within(sampling.presence_penalty, -1000, 1000, "presence_penalty"));
    TRY(within(sampling.frequency_penalty, -1000, 1000, "frequency_penalty"));
    TRY(within(sampling.repetition_penalty, 0.01f, 100, "repetition_penalty"));
    if (sampling.top_logprobs > 20)
        return fail(Fault::invalid_input,
                    "top_logprobs may be 20 at most, and is " + std::to_string(sampling.top_logprobs));
    for (const auto& [token, bias] : sampling.logit_bias) {
        if (token < 0 || std::uint32_t(token) >= vocabulary)
            return fail(Fault::invalid_input, "logit_bias names token " + std::to_string(token) +
                                                  ", and the vocabulary has " + std::to_string(vocabulary));
        if (!std::isfinite(bias))
            return fail(Fault::invalid_input,
                        "the logit_bias of token " + std::to_string(token) + " is not a finite number");
    }
    return Done{};
}

bool counts_prompt(const Sampling& sampling) { return sampling.repetition_penalty != 1.0f; }
bool counts_reply(const Sampling& sampling) {
    return counts_prompt(sampling) || sampling.presence_penalty != 0.0f || sampling.frequency_penalty != 0.0f;
}

Result<Emitted> Sampler::choose(std::span<float> logits, const Sampling& sampling, const TokenCounts& counts,
                                std::uint64_t place) {
    CHECK(logits.size() >= vocabulary_);
    logits = logits.first(vocabulary_);
    bend(logits, sampling, counts);
    const auto best = best_column(logits);
    if (!best)
        return fail(Fault::device, "the model computed logits that are not numbers for the token at place " +
                                       std::to_string(place) + ": the weights or the device are damaged");
    Emitted emitted;
    emitted.token = sampling.temperature == 0
                        ? Token(*best)
                        : draw(logits, sampling, logits[*best], uniform(sampling.seed, place));
    if (sampling.logprobs) describe(logits, sampling, logits[*best], emitted);
    return emitted;
}

/// The cuts each keep the best tokens, so their order matters only in what top_p calls the whole: the tokens
/// that top_k left.
Token Sampler::draw(std::span<const float> logits, const Sampling& sampling, float highest, double random) {
    const bool top_k = sampling.top_k > 0 && sampling.top_k < logits.size();
    const bool top_p = sampling.top_p < 1;
    double whole = 0;
    if (top_k) {
        whole = keep_best(logits, sampling.top_k, highest, sampling.temperature);
    } else {
        whole = weigh_all(logits, highest, sampling.temperature);
        if (!top_p && sampling.min_p <= 0) return draw_from_all(random * whole);
        // Tokens below this add up to less than half of what top_p cuts off: it cannot reach them.
        const double least = top_p ? 0.5 * (1 - sampling.top_p) * whole / double(logits.size()) : 0;
        keep_heavier(logits, std::max(least, double(sampling.min_p)));
    }
    if (top_p) keep_nucleus(sampling.top_p * whole);
    // The best token weighs 1, so that this is min_p times the highest probability.
    std::erase_if(kept_, [&](const Candidate& c) { return c.weight < sampling.min_p; });

    double left = 0;
    for (const Candidate& candidate : kept_) left += candidate.weight;
    return kept_[find_weight(kept_.size(), random * left, [&](auto i) { return kept_[i].weight; })].token;
}

Token Sampler::draw_from_all(double target) const {
    std::size_t place = 0;
    for (; place + 1 < blocks_.size() && target >= blocks_[place]; ++place) target -= blocks_[place];
    // A sum that was rounded up may lead past the last block that weighs anything.
    while (place > 0 && blocks_[place] == 0) --place;
    const std::size_t first = place * block;
    const std::size_t here = std::min(block, weights_.size() - first);
    return Token(first + find_weight(here, target, [&](auto i) { return weights_[first + i]; }));
}

/// Fills weights_ and blocks_. @return their sum.
double Sampler::weigh_all(std::span<const float> logits, float highest, float temperature) {
    weights_.resize(logits.size());
    blocks_.clear();
    double whole = 0;
    for (std::size_t first = 0; first < logits.size(); first += block) {
        const std::size_t here = std::min(block, logits.size() - first);
        const float* in = logits.data() + first;
        float* out = weights_.data() + first;
        for (std::size_t i = 0; i < here; ++i) out[i] = exp_negative((in[i] - highest) / temperature);
        std::array<double, lanes> sums{};
        std::size_t i = 0;
        for (; i + lanes <= here; i += lanes)
            for (std::size_t lane = 0; lane < lanes; ++lane) sums[lane] += double(out[i + lane]);
        for (; i < here; ++i) sums[0] += double(out[i]);
        double sum = 0;
        for (const double lane : sums) sum += lane;
        blocks_.push_back(sum);
        whole += sum;
    }
    return whole;
}

/// Puts the best tokens into best_, in no order; fewer when the others are -infinity. Linear: a full buffer
/// is halved by selection, and each halving is paid for by as many tokens that went in.
void Sampler::find_best(std::span<const float> logits, std::size_t tokens) {
    const std::size_t room = std::max<std::size_t>(2 * tokens, 256);
    float bar = -infinity;  // what a token must exceed: of equals, the lower number is in already
    best_.clear();
    const auto halve = [&] {
        std::nth_element(best_.begin(), best_.begin() + std::ptrdiff_t(tokens - 1), best_.end(), better);
        best_.resize(tokens);
        bar = best_.back().logit;
    };
    for (std::size_t i = 0; i < logits.size(); ++i) {
        if (!(logits[i] > bar)) continue;
        best_.push_back({logits[i], 0, Token(i)});
        if (best_.size() == room) halve();
    }
    if (best_.size() > tokens) halve();
}

/// top_k: fills kept_ by token. @return the sum of its weights.
double Sampler::keep_best(std::span<const float> logits, std::size_t tokens, float highest,
                          float temperature) {
    find_best(logits, tokens);
    const Candidate last = *std::ranges::max_element(best_, better);  // the worst of the best
    kept_.clear();
    double whole = 0;
    for (std::size_t i = 0; i < logits.size(); ++i) {
        if (logits[i] < last.logit || (logits[i] == last.logit && Token(i) > last.token)) continue;
        kept_.push_back({logits[i], exp_negative((logits[i] - highest) / temperature), Token(i)});
        whole += kept_.back().weight;
    }
    return whole;
}

/// Fills kept_ by token with what weighs `least` or more, and anything at all.
void Sampler::keep_heavier(std::span<const float> logits, double least) {
    const float bar = std::max(float(least), std::numeric_limits<float>::min());
    kept_.clear();
    for (std::size_t i = 0; i < weights_.size(); ++i)
        if (weights_[i] >= bar) kept_.push_back({logits[i], weights_[i], Token(i)});
}

/// top_p: leaves in kept_ the fewest tokens, best first, whose weights reach `need`; at least one.
/// Quickselect by weight instead of a sort: each round looks at the side where the border lies.
void Sampler::keep_nucleus(double need) {
    sorted_.assign(kept_.begin(), kept_.end());
    std::size_t first = 0, last = sorted_.size();
    while (first < last) {
        Candidate pivot = sorted_[first + (last - first) / 2];
        {  // the median of three, so that rows in order cost no more than others
            const Candidate &a = sorted_[first], &b = sorted_[last - 1];
            if (better(a, b) != better(a, pivot))
                pivot = a;
            else if (better(b, a) != better(b, pivot))
                pivot = b;
        }
        std::size_t middle = first;  // what is better than the pivot comes before it
        double weight = 0;
        for (std::size_t i = first; i < last; ++i)
            if (better(sorted_[i], pivot)) {
                weight += sorted_[i].weight;
                std::swap(sorted_[i], sorted_[middle++]);
            }
        if (middle > first && weight >= need) {
            last = middle;
            continue;
        }
        const auto rest = std::span(sorted_).subspan(middle, last - middle);
        std::swap(*std::ranges::find(rest, pivot.token, &Candidate::token), rest.front());
        first = middle + 1;
        need -= weight + pivot.weight;
        if (need <= 0) last = first;
    }
    // What is kept are the first `last`. (Rounding may have led past a border that was seen before: then it
    // holds.)
    const Candidate worst =
        *std::max_element(sorted_.begin(), sorted_.begin() + std::ptrdiff_t(last), better);
    std::erase_if(kept_, [&](const Candidate& c) { return better(worst, c); });
}

void Sampler::describe(std::span<const float> logits, const Sampling& sampling, float highest,
                       Emitted& emitted) {
    const double whole = std::log(weigh_all(logits, highest, 1));
    const auto logprob = [&](float logit) { return float(double(logit) - double(highest) - whole); };
    emitted.logprob = logprob(logits[std::size_t(emitted.token)]);
    if (sampling.top_logprobs == 0) return;
    find_best(logits, sampling.top_logprobs);
    std::ranges::sort(best_, better);
    for (const Candidate& candidate : best_)
        emitted.top.push_back({candidate.token, logprob(candidate.logit)});
}

}  // namespace kapitsa

// From one row of logits to one token. The order of the operations, as users of the OpenAI interface, vLLM
// and transformers expect it:
//   1. logit_bias, then the penalties: repetition (divides or multiplies), frequency and presence (subtract);
//   2. log-probabilities are taken here: they describe the model as the request bent it, not the dice;
//   3. temperature 0: the best token, the lowest number among equals, and nothing below matters; else
//      temperature (first, so that the cuts see the probabilities which are drawn from), top_k, top_p, min_p;
//   4. one uniform number, keyed by the seed and the token's place, is looked up in what is left, by number.
// Sums and exponentials are written out in a fixed order, so that a seed gives one answer on every machine
// whose logits are the same. Logits are not trusted: NaN and +infinity are reported, -infinity is "never".
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/messages.h"
#include "engine/token_counts.h"

namespace kapitsa {

/// Refuses settings that are not numbers in their range, naming the setting.
Status check_sampling(const Sampling& sampling, std::uint32_t vocabulary);

/// Whether the sampler looks at the tokens of the prompt (of the reply), so that they need to be counted.
bool counts_prompt(const Sampling& sampling);
bool counts_reply(const Sampling& sampling);

/// The scratch memory of sampling. One serves all sequences, one after the other; it allocates only until it
/// has seen a request of each kind.
class Sampler {
public:
    /// Of each row, only the first `vocabulary` columns are ever sampled.
    explicit Sampler(std::uint32_t vocabulary) : vocabulary_(vocabulary) {}

    /// Chooses the token that stands at `place` of its sequence (prompt tokens count).
    ///
    /// @param logits [at least vocabulary] is written to: bias and penalties are applied in place.
    /// @param sampling has passed check_sampling.
    /// @return Fault::device when a logit is NaN or +infinity, or all are -infinity.
    /// @note Linear in the vocabulary, whatever the settings; greedy without log-probabilities is one pass.
    Result<Emitted> choose(std::span<float> logits, const Sampling& sampling, const TokenCounts& counts,
                           std::uint64_t place);

private:
    struct Candidate {
        float logit;
        float weight;  // e^((logit - highest) / temperature)
        Token token;
    };
    static bool better(const Candidate& a, const Candidate& b) {
        return a.logit > b.logit || (a.logit == b.logit && a.token < b.token);
    }

    Token draw(std::span<const float> logits, const Sampling& sampling, float highest, double random);
    Token draw_from_all(double target) const;
    double weigh_all(std::span<const float> logits, float highest, float temperature);
    void find_best(std::span<const float> logits, std::size_t tokens);
    double keep_best(std::span<const float> logits, std::size_t tokens, float highest, float temperature);
    void keep_heavier(std::span<const float> logits, double least);
    void keep_nucleus(double need);
    void describe(std::span<const float> logits, const Sampling& sampling, float highest, Emitted& emitted);

    std::uint32_t vocabulary_;
    std::vector<float> weights_;     // [vocabulary]
    std::vector<double> blocks_;     // sums of weights_, a block each
    std::vector<Candidate> best_;    // in no order
    std::vector<Candidate> kept_;    // by token
    std::vector<Candidate> sorted_;  // keep_nucleus moves these about
};

}  // namespace kapitsa

// All that crosses between the engine thread and the others: values in two kinds of queue.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/picture.h"
#include "base/result.h"
#include "engine/channel.h"

namespace kapitsa {

/// How the next token is chosen. The random number for a token depends on the seed and on the token's place
/// in the sequence alone, so a seed repeats its answer whatever else runs.
struct Sampling {
    float temperature = 1.0f;  // 0: the most likely token
    std::uint32_t top_k = 0;   // 0: all
    float top_p = 1.0f, min_p = 0.0f;
    float presence_penalty = 0.0f, frequency_penalty = 0.0f;  // of tokens of the reply
    float repetition_penalty = 1.0f;                          // of tokens of prompt and reply
    std::vector<std::pair<Token, float>> logit_bias = {};
    std::uint64_t seed = 0;
    bool logprobs = false;           // of the chosen token
    std::uint32_t top_logprobs = 0;  // and of this many best ones; 20 at most
};

// From the engine, one outbox a request: Started, then Progress and Tokens, then Finished or an Error; then
// the engine closes it. A reader that closes it first, or lets it fill, is taken for gone: its request is
// cancelled.
struct Started {
    std::uint32_t prompt_tokens, cached_tokens;
};  // it has a place; its prompt is being computed
struct Progress {
    std::uint32_t computed_tokens;
};  // of the prompt
struct Emitted {
    struct Alternative {
        Token token;
        float logprob;
    };
    Token token = 0;
    float logprob = 0;                  // natural; before temperature and the cuts, after penalties and bias
    std::vector<Alternative> top = {};  // best first
};
struct Tokens {
    std::vector<Emitted> accepted;
};  // of the reply, in order; without the stop token
struct Finished {
    enum class Reason { stop_token, length, cancelled } reason;
    std::uint32_t prompt_tokens = 0, cached_tokens = 0, reply_tokens = 0;
    double queue_seconds = 0, prefill_seconds = 0, decode_seconds = 0;
};
using Event = std::variant<Started, Progress, Tokens, Finished, Error>;
using Outbox = Channel<Event>;

/// The events a request can cause at most: each Progress is of a token or more, and so is each Tokens.
constexpr std::size_t outbox_room(std::size_t prompt_tokens, std::size_t max_tokens) {
    return prompt_tokens + max_tokens + 2;
}

// To the engine, one inbox for all.
struct Submit {
    std::uint64_t id = 0;            // the caller's; unique among the running
    std::vector<Token> prompt = {};  // at least one token; prompt and reply fit the context
    std::uint32_t max_tokens = 0;    // of the reply, at least one; lowered to what the context leaves
    std::vector<PlacedPicture> pictures = {};  // in the prompt: ascending, over tokens that stand for them
    std::vector<Token> stop_tokens = {};
    Sampling sampling = {};
    std::shared_ptr<Outbox> outbox = {};  // with outbox_room, so that the engine never waits for a reader
    std::chrono::steady_clock::time_point submitted = {};  // the engine's: when submit() took it
};
struct Cancel {
    std::uint64_t id = 0;
    std::uint32_t keep_tokens = 0;  // of the reply: what a stop string left standing
};
using Mail = std::variant<Submit, Cancel>;

}  // namespace kapitsa

// A request inside the engine: its tokens, how many of them are computed, and what it holds meanwhile.
// The engine thread's alone.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "cache/page_pool.h"
#include "engine/messages.h"
#include "engine/sampler.h"
#include "engine/sights.h"
#include "engine/token_counts.h"
#include "model/positions.h"

namespace kapitsa {

struct Sequence {
    using Clock = std::chrono::steady_clock;

    explicit Sequence(Submit&& request)
        : id(request.id),
          tokens(std::move(request.prompt)),
          prompt_tokens(std::uint32_t(tokens.size())),
          pictures(std::move(request.pictures)),
          seen(pictures.size()),
          positions(pictures),
          max_tokens(request.max_tokens),
          stop_tokens(std::move(request.stop_tokens)),
          sampling(std::move(request.sampling)),
          outbox(std::move(request.outbox)),
          submitted(request.submitted) {
        if (counts_prompt(sampling))
            for (const Token token : tokens) counts.add_prompt(token);
    }

    std::uint32_t known() const { return std::uint32_t(tokens.size()); }
    std::uint32_t reply_tokens() const { return known() - prompt_tokens; }
    /// Tokens that we have and whose keys, values and state are not in memory yet.
    std::uint32_t lacking() const { return known() - computed; }
    /// The prompt is computed: what it lacks is its last token.
    bool replying() const { return computed >= prompt_tokens; }
    /// It never holds more.
    std::uint32_t tokens_max() const { return prompt_tokens + max_tokens; }

    /// What stands for a token in place of its embedding; null where that is right. @param width of the
    /// stream
    const float* embedding(std::uint32_t token, std::size_t width) const {
        for (std::size_t i = 0; i < pictures.size(); ++i)
            if (token >= pictures[i].first && token - pictures[i].first < pictures[i].picture->tokens())
                return seen[i]->data() + (token - pictures[i].first) * width;
        return nullptr;
    }

    std::uint64_t id;
    std::vector<Token> tokens;  // the prompt, then the reply
    std::uint32_t prompt_tokens;
    std::vector<PlacedPicture> pictures;  // of the prompt
    std::vector<Sights::Rows> seen;       // [pictures] null until they are needed
    Positions positions;                  // for the rotation; `computed` and the like count places
    std::uint32_t max_tokens;             // of the reply
    std::vector<Token> stop_tokens;
    Sampling sampling;
    TokenCounts counts;  // kept only when the sampling asks for them
    std::shared_ptr<Outbox> outbox;

    std::uint32_t computed = 0;         // of `tokens`, the first ones
    std::uint64_t turn = 0;             // of its prompt: the lowest is worked on next
    std::optional<std::uint32_t> slot;  // the runner's; absent while it waits
    PageTable pages;
    bool outbox_full = false;  // or closed: its reader is gone

    Clock::time_point submitted, admitted, replied;  // replied: its first token was chosen
};

}  // namespace kapitsa

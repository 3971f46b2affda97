// The unit in which attention memory is given out.
#pragma once

#include <cstdint>

namespace kapitsa {

using Page = std::uint32_t;  // a slot of the page pool: page_tokens tokens of every attention layer
constexpr std::uint32_t page_tokens = 16;

/// Pages that hold so many tokens.
constexpr std::uint32_t pages_for(std::uint32_t tokens) {
    return tokens / page_tokens + (tokens % page_tokens != 0);
}

}  // namespace kapitsa

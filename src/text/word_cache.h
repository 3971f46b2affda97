// Words that one call has met before, and where in its output their tokens stand. Direct-mapped and bounded:
// a word that falls on another's place takes it.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "text/piece_table.h"

namespace kapitsa {

class WordCache {
public:
    static constexpr std::size_t word_bytes_max = 64;
    static constexpr std::size_t slots_max = 8192;  // of 24 bytes: a core's own cache holds them

    /// `text_bytes`: how much text the call has; a small text gets a small cache.
    explicit WordCache(std::size_t text_bytes)
        : slots_(std::bit_ceil(std::clamp<std::size_t>(text_bytes / 8, 16, slots_max))) {}

    /// Appends the tokens of `word`: copied from where `out` has them already, or made by `encode(word)`,
    /// which appends. `word` must stay where it is as long as the cache is used.
    template <typename Encode>
    void append(std::string_view word, std::vector<Token>& out, const Encode& encode) {
        if (word.size() > word_bytes_max) return encode(word);
        const std::uint64_t hash = hash_bytes(word);
        Slot& slot = slots_[hash & (slots_.size() - 1)];
        if (slot.hash == hash && std::string_view(slot.word, slot.bytes) == word) {
            if (slot.count == 1) return out.push_back(out[slot.first]);
            const std::size_t end = out.size();
            out.resize(end + slot.count);
            std::copy_n(out.begin() + static_cast<std::ptrdiff_t>(slot.first), slot.count,
                        out.begin() + static_cast<std::ptrdiff_t>(end));
            return;
        }
        const std::size_t first = out.size();
        encode(word);
        if (first <= UINT32_MAX)
            slot = {hash, word.data(), static_cast<std::uint32_t>(first),
                    static_cast<std::uint16_t>(out.size() - first), static_cast<std::uint16_t>(word.size())};
    }

private:
    struct Slot {
        std::uint64_t hash = 0;
        const char* word = nullptr;
        std::uint32_t first = 0;  // of its tokens in the output
        std::uint16_t count = 0;
        std::uint16_t bytes = 0;  // of the word
    };
    std::vector<Slot> slots_;  // a power of two
};

}  // namespace kapitsa

// Which tokens a sequence has had, and how often its reply has: what the penalties need, kept as the sequence
// grows instead of being counted again for each token.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"

namespace kapitsa {

/// Different tokens in the order of their first appearance. Allocates when their number doubles.
class TokenCounts {
public:
    struct Entry {
        Token token;
        std::uint32_t in_reply;  // times; 0 when only the prompt has it
    };

    void add_prompt(Token token) { find(token); }
    void add_reply(Token token) { ++find(token).in_reply; }
    std::span<const Entry> entries() const { return entries_; }

private:
    /// Open addressing: a cell is the number of an entry plus one, or 0. At most half of the cells are used.
    Entry& find(Token token) {
        if (2 * (entries_.size() + 1) > cells_.size()) rehash(cells_.empty() ? 64 : 2 * cells_.size());
        std::size_t cell = home(token);
        for (; cells_[cell] != 0; cell = (cell + 1) & (cells_.size() - 1))
            if (Entry& entry = entries_[cells_[cell] - 1]; entry.token == token) return entry;
        entries_.push_back({token, 0});
        cells_[cell] = std::uint32_t(entries_.size());
        return entries_.back();
    }

    void rehash(std::size_t cells) {
        cells_.assign(cells, 0);
        for (std::uint32_t i = 0; i < entries_.size(); ++i) {
            std::size_t cell = home(entries_[i].token);
            while (cells_[cell] != 0) cell = (cell + 1) & (cells - 1);
            cells_[cell] = i + 1;
        }
    }

    /// Fibonacci hashing; the number of cells is a power of two.
    std::size_t home(Token token) const {
        return std::size_t(std::uint32_t(token) * 0x9E3779B97F4A7C15u >> 32) & (cells_.size() - 1);
    }

    std::vector<Entry> entries_;
    std::vector<std::uint32_t> cells_;
};

}  // namespace kapitsa

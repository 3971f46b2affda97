// Byte-pair merging of one word: the adjacent pair of the lowest rank first, the leftmost of equals, until no
// pair has a rank. A long word takes n log n steps, whatever is in it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "text/piece_table.h"

namespace kapitsa {

class Bpe {
public:
    /// Where a call keeps its long words; one a thread.
    struct Scratch {
        std::vector<Token> ids;
        std::vector<std::uint32_t> ranks, next, previous;
        std::vector<std::uint64_t> heap;
    };

    /// Refuses a table that could not encode every text, or that merges what is no token. `table` is only
    /// read while this runs.
    static Result<Bpe> make(const PieceTable& table,
                            const std::vector<std::pair<std::string, std::string>>& merges);

    /// Appends the tokens of a word that is UTF-8.
    void encode(std::string_view word, std::vector<Token>& out, Scratch& scratch) const;

private:
    static constexpr std::uint32_t no_rank = UINT32_MAX;
    struct Merge {
        std::uint64_t pair = UINT64_MAX;  // the left token's id in the upper half
        std::uint32_t rank = no_rank;
        Token merged = -1;
    };

    static std::uint64_t pair_of(Token left, Token right) {
        return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
    }
    std::size_t slot_of(std::uint64_t pair) const { return pair * 0x9E3779B97F4A7C15 >> shift_; }
    const Merge& find(Token left, Token right) const;
    std::uint32_t rank(Token left, Token right) const { return find(left, right).rank; }
    void insert(Merge merge);

    void encode_short(std::string_view word, std::vector<Token>& out) const;
    void encode_long(std::string_view word, std::vector<Token>& out, Scratch& scratch) const;

    std::array<Token, 256> byte_tokens_{};
    std::vector<Merge> merges_;  // open addressing, a power of two, at most half full
    unsigned shift_ = 0;         // 64 - log2(merges_.size())
};

}  // namespace kapitsa

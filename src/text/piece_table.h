// Which token a string of bytes is. Open addressing over pieces that somebody else owns; made once, then only
// read.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace kapitsa {

/// 64 bits of a string; every bit of the result depends on every byte. Not meant against an adversary.
inline std::uint64_t hash_bytes(std::string_view bytes) {
    constexpr std::uint64_t odd = 0x9E3779B97F4A7C15, other = 0xD6E8FEB86659FD93;
    std::uint64_t hash = bytes.size() * odd;
    const auto mix = [&](std::uint64_t word) {
        hash = (hash ^ word) * other;
        hash ^= hash >> 32;
    };
    const char* at = bytes.data();
    std::size_t left = bytes.size();
    for (; left >= 8; left -= 8, at += 8) {
        std::uint64_t word;
        std::memcpy(&word, at, 8);
        mix(word);
    }
    if (left > 0) {
        std::uint64_t word = 0;
        std::memcpy(&word, at, left);
        mix(word);
    }
    return (hash * odd) ^ (hash >> 29);
}

class PieceTable {
public:
    /// `pieces` must outlive this and stay where it is.
    explicit PieceTable(const std::vector<std::string>& pieces)
        : pieces_(&pieces), slots_(std::bit_ceil(2 * pieces.size() + 2)) {}

    /// False when an equal piece is already there.
    bool insert(Token id) {
        const std::string& piece = (*pieces_)[static_cast<std::size_t>(id)];
        const std::uint64_t hash = hash_bytes(piece);
        for (std::size_t at = hash & (slots_.size() - 1);; at = (at + 1) & (slots_.size() - 1)) {
            if (slots_[at].id == none) {
                slots_[at] = {tag(hash), id};
                return true;
            }
            if (holds(slots_[at], hash, piece)) return false;
        }
    }

    std::optional<Token> find(std::string_view piece) const {
        const std::uint64_t hash = hash_bytes(piece);
        for (std::size_t at = hash & (slots_.size() - 1);; at = (at + 1) & (slots_.size() - 1)) {
            if (slots_[at].id == none) return std::nullopt;
            if (holds(slots_[at], hash, piece)) return slots_[at].id;
        }
    }

private:
    static constexpr Token none = -1;
    struct Slot {
        std::uint32_t tag = 0;  // the upper half of the hash: most comparisons end here
        Token id = none;
    };

    static std::uint32_t tag(std::uint64_t hash) { return static_cast<std::uint32_t>(hash >> 32); }
    bool holds(const Slot& slot, std::uint64_t hash, std::string_view piece) const {
        return slot.tag == tag(hash) && (*pieces_)[static_cast<std::size_t>(slot.id)] == piece;
    }

    const std::vector<std::string>* pieces_;
    std::vector<Slot> slots_;  // a power of two, at most half full
};

}  // namespace kapitsa

// Where the tokens of a sequence stand, for the rotation of queries and keys. That is another count than the
// places of their keys and values: a picture of many tokens takes few steps of time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/picture.h"

namespace kapitsa {

/// In text all three are equal.
struct RowPosition {
    std::uint32_t time = 0, row = 0, column = 0;
    friend bool operator==(const RowPosition&, const RowPosition&) = default;
};

/// Text counts on by one. All tokens of a picture share one time, and count its rows and columns from there;
/// what follows counts on behind the largest of these. Source: the three-axis rotation of Qwen2-VL and its
/// kin.
class Positions {
public:
    Positions() = default;
    /// `pictures`: ascending, without overlap.
    explicit Positions(std::span<const PlacedPicture> pictures);

    /// Of the token with this number in its sequence.
    RowPosition at(std::uint32_t token) const;
    /// The time of token `token`, which is text, is token + shift.
    std::int32_t shift(std::uint32_t token) const;
    /// Whether the token cannot be told from the one before it by counting on: it is of a picture, or the
    /// first behind one.
    bool jumps(std::uint32_t token) const;

private:
    struct Span {
        std::uint32_t first, tokens, columns;
        std::uint32_t time;        // of its tokens
        std::int32_t shift_after;  // of the text behind it
    };
    /// The last that begins at or before the token; null where there is none.
    const Span* before(std::uint32_t token) const;
    std::vector<Span> spans_;
};

}  // namespace kapitsa

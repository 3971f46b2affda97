#include "model/positions.h"

#include <algorithm>

#include "base/check.h"

namespace kapitsa {

Positions::Positions(std::span<const PlacedPicture> pictures) {
    std::int32_t shift = 0;
    std::uint32_t end = 0;
    for (const auto& [first, picture] : pictures) {
        CHECK(first >= end);
        const auto time = std::uint32_t(std::int64_t(first) + shift);
        end = first + picture->tokens();
        shift = std::int32_t(std::int64_t(time) + std::max(picture->token_rows(), picture->token_columns()) -
                             end);
        spans_.push_back({first, picture->tokens(), picture->token_columns(), time, shift});
    }
}

const Positions::Span* Positions::before(std::uint32_t token) const {
    const auto next = std::ranges::upper_bound(spans_, token, {}, &Span::first);
    return next == spans_.begin() ? nullptr : &*std::prev(next);
}

RowPosition Positions::at(std::uint32_t token) const {
    const Span* span = before(token);
    if (!span || token - span->first >= span->tokens) {
        const auto time = std::uint32_t(std::int64_t(token) + (span ? span->shift_after : 0));
        return {time, time, time};
    }
    const std::uint32_t place = token - span->first;
    return {span->time, span->time + place / span->columns, span->time + place % span->columns};
}

std::int32_t Positions::shift(std::uint32_t token) const {
    const Span* span = before(token);
    return span ? span->shift_after : 0;
}

bool Positions::jumps(std::uint32_t token) const {
    const Span* span = before(token);
    return span && token - span->first <= span->tokens;
}

}  // namespace kapitsa

// Bytes: a read-only view of memory that somebody else owns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace kapitsa {

using Bytes = std::span<const std::byte>;

inline std::string_view as_text(Bytes bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline Bytes as_bytes(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

/// The number of a piece of text in one model's vocabulary. The engine knows no other word.
using Token = std::int32_t;

}  // namespace kapitsa

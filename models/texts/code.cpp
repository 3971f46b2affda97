// A ring of bytes between one writer and one reader, without locks. The indices only grow; their difference is
// what is held, and the capacity is a power of two, so that wrapping them around is a mask.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstring>
#include <optional>
#include <span>

namespace pipes {

template <std::size_t capacity>
class Ring {
    static_assert(std::has_single_bit(capacity), "the indices are masked");

public:
    /// As much of `from` as there is room for. Called by the writer alone.
    std::size_t write(std::span<const std::byte> from) {
        const std::size_t head = head_.load(std::memory_order_relaxed);
        const std::size_t tail = tail_.load(std::memory_order_acquire);
        const std::size_t count = std::min(from.size(), capacity - (head - tail));
        copy_in(from.first(count), head);
        head_.store(head + count, std::memory_order_release);
        return count;
    }

    /// As much as there is, at most what fits into `to`. Called by the reader alone.
    std::size_t read(std::span<std::byte> to) {
        const std::size_t tail = tail_.load(std::memory_order_relaxed);
        const std::size_t head = head_.load(std::memory_order_acquire);
        const std::size_t count = std::min(to.size(), head - tail);
        for (std::size_t done = 0; done < count;) {
            const std::size_t at = (tail + done) & (capacity - 1);
            const std::size_t piece = std::min(count - done, capacity - at);
            std::memcpy(to.data() + done, bytes_.data() + at, piece);
            done += piece;
        }
        tail_.store(tail + count, std::memory_order_release);
        return count;
    }

    std::size_t size() const { return head_.load() - tail_.load(); }
    bool empty() const { return size() == 0; }

private:
    void copy_in(std::span<const std::byte> from, std::size_t head) {
        while (!from.empty()) {
            const std::size_t at = head & (capacity - 1);
            const std::size_t piece = std::min(from.size(), capacity - at);
            std::memcpy(bytes_.data() + at, from.data(), piece);
            from = from.subspan(piece);
            head += piece;
        }
    }

    alignas(64) std::atomic<std::size_t> head_{0};
    alignas(64) std::atomic<std::size_t> tail_{0};
    alignas(64) std::array<std::byte, capacity> bytes_;
};

/// The length of a frame is four bytes, little-endian, in front of it; nothing longer than `most` is believed.
inline std::optional<std::size_t> frame_length(std::span<const std::byte, 4> head, std::size_t most) {
    std::size_t length = 0;
    for (std::size_t i = 0; i < 4; ++i) length |= std::to_integer<std::size_t>(head[i]) << (8 * i);
    if (length > most) return std::nullopt;
    return length;
}

}  // namespace pipes

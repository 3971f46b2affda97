// A bounded queue between threads: the only place, beside the CPU pool, where a lock lives.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

namespace kapitsa {

/// Many may send; one receives, either by waiting (`take`) or by asking (`poll`) after `wake` was called.
template <typename T>
class Channel {
public:
    /// `wake`, if given, is called after each send and after close, on the sender's thread and outside the
    /// lock: it must only post a note to the receiver.
    explicit Channel(std::size_t capacity, std::function<void()> wake = {})
        : capacity_(capacity), wake_(std::move(wake)) {}
    Channel(const Channel&) = delete;
    Channel& operator=(const Channel&) = delete;

    /// False when the channel is full or closed; the value is then dropped.
    [[nodiscard]] bool send(T value) {
        {
            const std::scoped_lock lock(mutex_);
            if (closed_ || queue_.size() == capacity_) return false;
            queue_.push_back(std::move(value));
        }
        arrived_.notify_one();
        if (wake_) wake_();
        return true;
    }

    /// Waits for a value. Nothing once the channel is closed and drained.
    std::optional<T> take() {
        std::unique_lock lock(mutex_);
        arrived_.wait(lock, [this] { return closed_ || !queue_.empty(); });
        return pop();
    }

    /// A value if there is one now.
    std::optional<T> poll() {
        const std::scoped_lock lock(mutex_);
        return pop();
    }

    /// No more is taken in; what is queued can still be received.
    void close() {
        {
            const std::scoped_lock lock(mutex_);
            closed_ = true;
        }
        arrived_.notify_all();
        if (wake_) wake_();
    }

    bool closed() const {
        const std::scoped_lock lock(mutex_);
        return closed_;
    }

private:
    std::optional<T> pop() {
        if (queue_.empty()) return std::nullopt;
        std::optional<T> value(std::move(queue_.front()));
        queue_.pop_front();
        return value;
    }

    const std::size_t capacity_;
    const std::function<void()> wake_;
    mutable std::mutex mutex_;
    std::condition_variable arrived_;
    std::deque<T> queue_;
    bool closed_ = false;
};

}  // namespace kapitsa

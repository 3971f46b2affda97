// The machine's memory, for caches that take what is free of it and give it back when it runs short.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "base/result.h"

namespace kapitsa {

/// In bytes. `available` is what programs can have without others being paged out; 0 and 0: the system does
/// not say.
struct MachineMemory {
    std::uint64_t total = 0, available = 0;
};
MachineMemory machine_memory();

/// Says when a cache is to shrink: less than a twentieth of the machine's memory is left; and when it may
/// grow again: a fifth is free.
class MachineWatch {
public:
    struct Options {
        std::function<MachineMemory()> machine = machine_memory;
        std::chrono::milliseconds interval{500};  // between two looks
    };
    explicit MachineWatch(Options options)
        : options_(std::move(options)), looked_(std::chrono::steady_clock::now()) {}

    enum class Advice { keep, shrink, grow };
    Advice look();

private:
    Options options_;
    std::chrono::steady_clock::time_point looked_;
};

/// Zeroed memory of the system's, pinned where it lets us. It costs nothing until it is touched.
class PinnedMemory {
public:
    PinnedMemory() = default;
    /// @param whose "experts", for the error's text
    static Result<PinnedMemory> make(std::uint64_t bytes, const std::string& whose);
    PinnedMemory(PinnedMemory&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
    PinnedMemory& operator=(PinnedMemory&& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(bytes_, other.bytes_);
        return *this;
    }
    ~PinnedMemory();

    std::byte* data() const { return data_; }
    /// What lies there is gone; it may be used again.
    void give_back(std::uint64_t begin, std::uint64_t bytes);

private:
    PinnedMemory(std::byte* data, std::uint64_t bytes) : data_(data), bytes_(bytes) {}
    std::byte* data_ = nullptr;
    std::uint64_t bytes_ = 0;
};

}  // namespace kapitsa

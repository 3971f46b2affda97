// One threadgroup as fibers on one OS thread: each thread of the group is a fiber, and gives way only at a
// barrier or a simd_ call. Deterministic, and strict where hardware forgives: every simdgroup runs as far as
// it can before the next one moves, so a missing barrier shows on the first run; a thread that is absent
// where others wait aborts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "base/check.h"

namespace kapitsa::emulator {

class Fiber;

class Group {
public:
    Group();
    Group(const Group&) = delete;
    ~Group();

    /// The group that runs on this OS thread.
    static Group& current() { return *current_; }
    std::uint32_t index() const { return running_; }

    using Thread = void (*)(const void* context, std::uint32_t index);
    /// Runs `thread` once for each index, to the end. `name` is for messages.
    void run(const char* name, std::uint32_t threads, Thread thread, const void* context);

    void barrier() { arrive(group_, "group_barrier"); }
    void simd_barrier() { arrive(simdgroups_[running_ / 32].scope, "simd_barrier"); }

    /// Publishes `value`, waits for the simdgroup; then reader(lane) is any lane's value until the next
    /// exchange.
    template <typename T>
    class Values {
    public:
        explicit Values(const std::uint32_t* words) : words_(words) {}
        T operator[](std::uint32_t lane) const {
            T value;
            std::memcpy(&value, &words_[lane], sizeof value);
            return value;
        }

    private:
        const std::uint32_t* words_;
    };
    template <typename T>
    Values<T> exchange(T value, const char* word) {
        static_assert(sizeof(T) == 4);
        Simdgroup& simdgroup = simdgroups_[running_ / 32];
        std::uint32_t* words = simdgroup.words[simdgroup.scope.generation % 2];
        std::memcpy(&words[running_ % 32], &value, sizeof value);
        arrive(simdgroup.scope, word);
        return Values<T>(words);
    }

private:
    friend class Fiber;

    /// Threads that must all arrive before any goes on.
    struct Scope {
        std::uint32_t size = 32, arrived = 0;
        std::uint64_t generation = 0;
        const char* word = nullptr;  // where they wait
    };
    struct Simdgroup {
        Scope scope;
        std::uint32_t words[2][32];  // of even and odd generations: one is read while the other is written
    };

    void arrive(Scope& scope, const char* word);
    void resume(std::uint32_t index);
    void yield();

    static thread_local Group* current_;
    static std::vector<std::unique_ptr<Fiber>>& fibers_here();
    std::vector<std::unique_ptr<Fiber>>& fibers_;  // of this OS thread: as many as the largest group so far
    std::vector<Simdgroup> simdgroups_;
    Scope group_;
    const char* name_ = "";
    Thread thread_ = nullptr;
    const void* context_ = nullptr;
    std::uint32_t running_ = 0, threads_ = 0, alive_ = 0;
    std::uint64_t progress_ = 0;
};

}  // namespace kapitsa::emulator

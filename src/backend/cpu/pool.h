// The threads of the CPU backend. The caller is one of them; the others sleep between runs and spin within
// one. All waiting is on atomics: there is no lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace kapitsa::cpu {

/// How many cores this process may use.
std::uint32_t usable_cores();

/// Gives way to whoever shares the core: a pause at first, then the rest of the time slice.
class Patience {
public:
    void wait();

private:
    std::uint32_t waited_ = 0;
};

/// All workers of a run meet here, again and again.
class Barrier {
public:
    explicit Barrier(std::uint32_t workers) : workers_(workers) {}
    void meet();

private:
    const std::uint32_t workers_;
    alignas(64) std::atomic<std::uint32_t> arrived_{0};
    alignas(64) std::atomic<std::uint32_t> round_{0};
};

class Pool {
public:
    /// `workers` of them, at least one.
    explicit Pool(std::uint32_t workers);
    Pool(const Pool&) = delete;
    Pool& operator=(const Pool&) = delete;
    ~Pool();

    std::uint32_t workers() const { return std::uint32_t(threads_.size()) + 1; }
    /// Runs body(worker) once on every worker, the caller being worker 0, and returns when all are done.
    void run(const std::function<void(std::uint32_t)>& body);

private:
    void work(std::uint32_t worker);

    const std::function<void(std::uint32_t)>* body_ = nullptr;
    alignas(64) std::atomic<std::uint32_t> started_{0};
    alignas(64) std::atomic<std::uint32_t> finished_{0};
    std::atomic<bool> stopping_{false};
    std::vector<std::thread> threads_;
};

}  // namespace kapitsa::cpu

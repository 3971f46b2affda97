// The threads of the CPU backend. The caller is one of them. Who waits looks for some tens of microseconds
// and then sleeps, so that a core goes to whoever has work for it, be that another program or the very worker
// that is waited for. All waiting is on atomics: there is no lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace kapitsa::cpu {

/// How many cores this process may use.
std::uint32_t usable_cores();

/// Returns once `value` is `wanted`. Whoever makes it so calls value.notify_all().
void wait_until(const std::atomic<std::uint32_t>& value, std::uint32_t wanted);

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

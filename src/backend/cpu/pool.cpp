#include "backend/cpu/pool.h"

#include <algorithm>
#include <string>
#include <system_error>

#include "base/check.h"
#include "base/log.h"

#if defined(__linux__)
#include <sched.h>
#endif
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace kapitsa::cpu {

std::uint32_t usable_cores() {
#if defined(__linux__)
    cpu_set_t cores;
    if (sched_getaffinity(0, sizeof cores, &cores) == 0) return std::max(1, CPU_COUNT(&cores));
#endif
    return std::max(1u, std::thread::hardware_concurrency());
}

namespace {

constexpr std::uint32_t looks_before_sleep = 2000;  // some tens of microseconds: a launch of a small model

void pause() {
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    asm volatile("isb" ::: "memory");
#endif
}

}  // namespace

void wait_until(const std::atomic<std::uint32_t>& value, std::uint32_t wanted) {
    for (std::uint32_t looks = 0; looks < looks_before_sleep; ++looks) {
        if (value.load(std::memory_order_acquire) == wanted) return;
        pause();
    }
    for (std::uint32_t now; (now = value.load(std::memory_order_acquire)) != wanted;)
        value.wait(now, std::memory_order_acquire);
}

Pool::Pool(std::uint32_t workers) {
    CHECK(workers > 0);
    threads_.reserve(workers - 1);
    try {
        for (std::uint32_t worker = 1; worker < workers; ++worker)
            threads_.emplace_back([this, worker] { work(worker); });
    } catch (const std::system_error& error) {  // fewer do the same, in more time
        log_warning("of " + std::to_string(workers) + " threads that compute, " +
                    std::to_string(threads_.size() + 1) + " could be started: " + error.what());
    }
}

Pool::~Pool() {
    stopping_.store(true, std::memory_order_release);
    started_.fetch_add(1, std::memory_order_release);
    started_.notify_all();
    for (std::thread& thread : threads_) thread.join();
}

void Pool::run(const std::function<void(std::uint32_t)>& body) {
    body_ = &body;
    finished_.store(0, std::memory_order_relaxed);
    started_.fetch_add(1, std::memory_order_release);
    started_.notify_all();
    body(0);
    wait_until(finished_, std::uint32_t(threads_.size()));
}

void Pool::work(std::uint32_t worker) {
    for (std::uint32_t seen = 0;; ++seen) {
        // The next run of a decoding model comes soon.
        wait_until(started_, seen + 1);
        if (stopping_.load(std::memory_order_acquire)) return;
        (*body_)(worker);
        if (finished_.fetch_add(1, std::memory_order_acq_rel) + 1 == threads_.size()) finished_.notify_all();
    }
}

}  // namespace kapitsa::cpu

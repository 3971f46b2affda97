#include "backend/cpu/pool.h"

#include <algorithm>

#include "base/check.h"

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

void Patience::wait() {
    constexpr std::uint32_t pauses =
        4000;  // some tens of microseconds: longer than a launch of a small model
    if (++waited_ > pauses) {
        std::this_thread::yield();
        return;
    }
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    asm volatile("isb" ::: "memory");
#endif
}

void Barrier::meet() {
    const std::uint32_t round = round_.load(std::memory_order_acquire);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == workers_) {
        arrived_.store(0, std::memory_order_relaxed);
        round_.store(round + 1, std::memory_order_release);
        return;
    }
    for (Patience patience; round_.load(std::memory_order_acquire) == round;) patience.wait();
}

Pool::Pool(std::uint32_t workers) {
    CHECK(workers > 0);
    for (std::uint32_t worker = 1; worker < workers; ++worker)
        threads_.emplace_back([this, worker] { work(worker); });
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
    for (Patience patience; finished_.load(std::memory_order_acquire) != threads_.size();) patience.wait();
}

void Pool::work(std::uint32_t worker) {
    for (std::uint32_t seen = 0;;) {
        // The next run of a decoding model comes soon: look for it a while before going to sleep.
        for (std::uint32_t looks = 0; looks < 2000 && started_.load(std::memory_order_acquire) == seen;
             ++looks)
            Patience().wait();
        started_.wait(seen, std::memory_order_acquire);
        seen = started_.load(std::memory_order_acquire);
        if (stopping_.load(std::memory_order_acquire)) return;
        (*body_)(worker);
        finished_.fetch_add(1, std::memory_order_release);
    }
}

}  // namespace kapitsa::cpu

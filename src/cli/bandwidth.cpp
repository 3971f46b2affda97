#include "cli/bandwidth.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <span>
#include <thread>
#include <vector>

namespace kapitsa {
namespace {

constexpr std::size_t least_bytes = std::size_t(256) << 20, most_bytes = std::size_t(1) << 30;
constexpr int passes = 5;

std::size_t buffer_bytes() {
    std::size_t cache = 0;
#ifdef _SC_LEVEL3_CACHE_SIZE
    if (const long level3 = ::sysconf(_SC_LEVEL3_CACHE_SIZE); level3 > 0)
        cache = static_cast<std::size_t>(level3);
#endif
    return std::clamp(4 * cache, least_bytes, most_bytes);
}

/// Eight sums at once, so that the adds do not wait for each other. Volatile, so that the reads happen.
void sum(std::span<const std::uint64_t> words) {
    std::uint64_t sums[8] = {};
    for (std::size_t i = 0; i + 8 <= words.size(); i += 8)
        for (std::size_t lane = 0; lane < 8; ++lane) sums[lane] += words[i + lane];
    volatile std::uint64_t kept = 0;
    for (const auto one : sums) kept = kept + one;
}

}  // namespace

double read_bandwidth(unsigned threads) {
    threads = std::max(threads, 1u);
    const std::size_t words_each = buffer_bytes() / sizeof(std::uint64_t) / threads;
    const std::vector<std::uint64_t> buffer(words_each * threads, 1);
    const auto pass = [&] {
        std::vector<std::jthread> readers;
        for (unsigned i = 0; i < threads; ++i)
            readers.emplace_back(sum, std::span(buffer).subspan(i * words_each, words_each));
    };
    double best = 0;
    for (int i = 0; i < passes; ++i) {
        const auto start = std::chrono::steady_clock::now();
        pass();
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
        best = std::max(best, static_cast<double>(buffer.size() * sizeof(std::uint64_t)) / took.count());
    }
    return best;
}

}  // namespace kapitsa

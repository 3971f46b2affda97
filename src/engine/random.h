// Random numbers without a state: each is a function of a key and a counter, so that a token's number depends
// on the request's seed and on the token's place alone, whatever else runs and in whatever order.
// Source: Philox4x32-10, Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
#pragma once

#include <array>
#include <cstdint>

namespace kapitsa {

/// One block of the generator: ten rounds of two multiplications.
constexpr std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                              std::array<std::uint32_t, 2> key) {
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t first = std::uint64_t(0xD2511F53) * counter[0];
        const std::uint64_t second = std::uint64_t(0xCD9E8D57) * counter[2];
        counter = {std::uint32_t(second >> 32) ^ counter[1] ^ key[0], std::uint32_t(second),
                   std::uint32_t(first >> 32) ^ counter[3] ^ key[1], std::uint32_t(first)};
        key[0] += 0x9E3779B9;
        key[1] += 0xBB67AE85;
    }
    return counter;
}

/// Uniform in [0, 1), in steps of 2^-53, for the token at `place` of a sequence with this seed.
constexpr double uniform(std::uint64_t seed, std::uint64_t place) {
    const auto block = philox({std::uint32_t(place), std::uint32_t(place >> 32), 0, 0},
                              {std::uint32_t(seed), std::uint32_t(seed >> 32)});
    const std::uint64_t bits = (std::uint64_t(block[0]) << 32 | block[1]) >> 11;
    return double(bits) * 0x1p-53;
}

}  // namespace kapitsa

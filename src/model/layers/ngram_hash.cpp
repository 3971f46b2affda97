#include "model/layers/ngram_hash.h"

#include <algorithm>
#include <limits>

namespace kapitsa {
namespace {

constexpr std::uint64_t largest = std::numeric_limits<std::int64_t>::max();

std::uint64_t split_mix(std::uint64_t z) {
    z += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

bool is_prime(std::uint64_t n) {
    if (n < 4) return n > 1;
    if (n % 2 == 0) return false;
    for (std::uint64_t d = 3; d * d <= n; d += 2)
        if (n % d == 0) return false;
    return true;
}

}  // namespace

NgramHash NgramHash::compute(const NgramNumbers& n) {
    NgramHash hash;
    const std::uint64_t half = std::max<std::uint64_t>(1, largest / n.vocabulary / 2);
    for (std::uint64_t i = 1; i <= n.order; ++i) {
        const std::uint64_t start = n.seed + 10007u * std::uint64_t(n.module) + 0x9E3779B97F4A7C15u * i;
        hash.multipliers.push_back(2 * (split_mix(start) % half) + 1);
    }
    // Modules share one row of primes.
    std::uint64_t skip = std::uint64_t(n.module) * n.heads(), prime = n.least_size, end = 0;
    for (; hash.sizes.size() < n.heads(); ++prime) {
        if (!is_prime(prime)) continue;
        if (skip > 0) {
            --skip;
            continue;
        }
        hash.sizes.push_back(prime);
        hash.offsets.push_back(end);
        end += prime;
    }
    return hash;
}

Result<NgramHash> NgramHash::load(Weights& weights, const std::string& module, const NgramNumbers& n) {
    const std::string multipliers = module + ".layer_multipliers",
                      sizes = module + ".ngram_heads_vocab_sizes", offsets = module + ".ngram_heads_offsets";
    for (const std::string& name : {multipliers, sizes, offsets}) {
        if (weights.type(name) == ElementType::i64) continue;
        for (const std::string& part : {multipliers, sizes, offsets}) weights.set_aside(part);
        return compute(n);
    }
    NgramHash hash;
    hash.multipliers = TRY(weights.whole_numbers(multipliers, {n.order}));
    for (const std::uint64_t multiplier : hash.multipliers)
        if (multiplier > largest / n.vocabulary)
            return fail(Fault::corrupt_file, multipliers + " holds " + std::to_string(multiplier) +
                                                 ", whose products with tokens pass 2^63");
    hash.sizes = TRY(weights.whole_numbers(sizes, {n.heads()}));
    hash.offsets = TRY(weights.whole_numbers(offsets, {n.heads()}));
    return hash;
}

Result<std::uint32_t> NgramHash::rows(std::uint32_t multiple) const {
    constexpr std::uint64_t most = std::numeric_limits<std::uint32_t>::max();
    std::uint64_t total = 0;
    for (const std::uint64_t size : sizes) {
        if (size == 0 || size > most)
            return fail(Fault::corrupt_file, "the table of n-grams has a part of " + std::to_string(size) +
                                                 " rows; a part has from 1 to 2^32 - 1");
        total += size;
    }
    total = (total + multiple - 1) / multiple * multiple;
    if (total > most)
        return fail(Fault::unsupported, "a table of n-grams of " + std::to_string(total) +
                                            " rows; at most 2^32 - 1 are supported");
    for (std::size_t head = 0; head < sizes.size(); ++head)
        if (offsets[head] > total || sizes[head] > total - offsets[head])
            return fail(Fault::corrupt_file, "part " + std::to_string(head) +
                                                 " of the table of n-grams lies beyond its " +
                                                 std::to_string(total) + " rows");
    return std::uint32_t(total);
}

}  // namespace kapitsa

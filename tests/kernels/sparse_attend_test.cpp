// Attention over chosen tokens against softmax in double. Tokens that no row chose are NaN.
#include "kernels/sparse_attend.h"

#include <cmath>

#include "kernels/lab.h"
#include "kernels/pages.h"

namespace kapitsa {
namespace {

KERNEL_TESTS(SparseAttention);

constexpr std::size_t pages_of_cache = 40;

struct HeadShape {
    std::size_t heads, kv_heads, width;
    std::size_t columns() const { return heads * width; }
};
constexpr HeadShape head_shapes[] = {{2, 2, 5}, {3, 1, 16}, {8, 2, 64}, {24, 2, 33}, {4, 1, 256}, {7, 1, 20}};

/// Rows with lists of slots of their own.
struct ChosenCase {
    HeadShape shape;
    std::vector<std::vector<uint>> chosen;
    bool gated = true;
    Pages cache{shape.kv_heads, shape.width, pages_of_cache};
    std::vector<float> q = random_floats(chosen.size() * shape.columns(), 1, 2),
                       gates = random_floats(chosen.size() * 2 * shape.columns(), 2, 6);

    ChosenCase(const HeadShape& of_shape, std::vector<std::vector<uint>> of_rows, bool with_gate)
        : shape(of_shape), chosen(std::move(of_rows)), gated(with_gate) {
        for (const auto& slots : chosen)
            for (const uint slot : slots) {
                const auto numbers = random_floats(2 * shape.kv_heads * shape.width, 1000 + slot, 2);
                for (std::size_t head = 0; head < shape.kv_heads; ++head)
                    for (std::size_t i = 0; i < shape.width; ++i) {
                        cache.key(slot, head, i) = numbers[head * shape.width + i];
                        cache.value(slot, head, i) = numbers[(shape.kv_heads + head) * shape.width + i];
                    }
            }
    }

    float scale() const { return 1 / std::sqrt(float(shape.width)); }

    std::vector<float> run(const Place& place, std::uint32_t threads = 1) const {
        std::size_t most = 1;
        std::vector<uint> slots, counts;
        for (const auto& row : chosen) most = std::max(most, row.size());
        for (const auto& row : chosen) {
            counts.push_back(uint(row.size()));
            slots.insert(slots.end(), row.begin(), row.end());
            slots.resize(counts.size() * most, ~0u);  // behind the count lies anything
        }
        Lab lab(place, threads);
        const Out<float> o = lab.room(q.size());
        lab.run(attend_chosen_f32, {.q = lab.give(q),
                                    .gate = gated ? lab.give(gates) + shape.width : nullptr,
                                    .keys = lab.give(cache.keys),
                                    .values = lab.give(cache.values),
                                    .chosen = lab.give(slots),
                                    .counts = lab.give(counts),
                                    .o = o,
                                    .rows = uint(chosen.size()),
                                    .heads = uint(shape.heads),
                                    .kv_heads = uint(shape.kv_heads),
                                    .width = uint(shape.width),
                                    .gate_stride = uint(2 * shape.width),
                                    .most = uint(most),
                                    .scale = scale()});
        return lab.read(o, q.size());
    }

    std::vector<double> obvious() {
        std::vector<double> o;
        for (std::size_t at = 0; at < chosen.size() * shape.heads; ++at) {
            const std::size_t kv_head = at % shape.heads / (shape.heads / shape.kv_heads);
            std::vector<double> weights, sums(shape.width, 0.0);
            double most = -HUGE_VAL, total = 0;
            for (const uint slot : chosen[at / shape.heads]) {
                double score = 0;
                for (std::size_t i = 0; i < shape.width; ++i)
                    score += double(q[at * shape.width + i]) * cache.key(slot, kv_head, i);
                weights.push_back(score * scale());
                most = std::fmax(most, weights.back());
            }
            for (std::size_t t = 0; t < weights.size(); ++t) {
                const double weight = std::exp(weights[t] - most);
                total += weight;
                for (std::size_t i = 0; i < shape.width; ++i)
                    sums[i] += weight * cache.value(chosen[at / shape.heads][t], kv_head, i);
            }
            for (std::size_t i = 0; i < shape.width; ++i) {
                const double gate =
                    gated ? 1 / (1 + std::exp(-double(gates[(2 * at + 1) * shape.width + i]))) : 1;
                o.push_back(sums[i] / total * gate);
            }
        }
        return o;
    }
};

/// Rows of 1 to 70 slots, each slot at most once.
std::vector<std::vector<uint>> some_lists() {
    std::vector<std::vector<uint>> lists;
    for (const std::size_t count : {1u, 2u, 15u, 16u, 17u, 31u, 33u, 70u}) {
        lists.emplace_back();
        for (std::size_t i = 0; i < count; ++i)
            lists.back().push_back(uint((i * 37 + 11 * count) % (pages_of_cache * 8) * 2));
    }
    return lists;
}

TEST_P(SparseAttention, IsTheSoftmaxOverTheChosenTokensAlone) {
    for (const HeadShape& shape : head_shapes)
        for (const bool gated : {true, false}) {
            ChosenCase it(shape, some_lists(), gated);
            EXPECT_LT(largest_error(it.run(GetParam()), it.obvious()), 4e-6)
                << shape.heads << " heads of width " << shape.width;
        }
}

TEST_P(SparseAttention, GivesARowTheSameBitsWhateverRidesAlong) {
    for (const HeadShape& shape : head_shapes) {
        const ChosenCase it(shape, some_lists(), true);
        const auto together = it.run(GetParam());
        for (const std::uint32_t threads : {2u, 3u})
            EXPECT_EQ(bits(it.run(GetParam(), threads)), bits(together));
        for (std::size_t row = 0; row < it.chosen.size(); ++row) {
            ChosenCase alone(shape, {it.chosen[row]}, true);
            alone.q = row_of(it.q, row, shape.columns());
            alone.gates = row_of(it.gates, row, 2 * shape.columns());
            EXPECT_EQ(bits(alone.run(GetParam())), bits(row_of(together, row, shape.columns())))
                << "row " << row << " of width " << shape.width;
        }
    }
}

TEST_P(SparseAttention, HoldsForLargeScoresAndShutGates) {
    ChosenCase it({3, 1, 16}, some_lists(), true);
    for (float& value : it.q) value *= 1000;
    for (std::size_t i = 0; i < it.gates.size(); ++i) it.gates[i] = i % 3 ? -300.0f : 300.0f;
    EXPECT_LT(largest_error(it.run(GetParam()), it.obvious()), 1e-4);
}

}  // namespace
}  // namespace kapitsa

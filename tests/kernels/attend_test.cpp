// Attention over pages out of order, for chains and trees, against softmax in double. Tokens that a row must
// not see are NaN where they can be.
#include <cmath>

#include "kernels/lab.h"
#include "kernels/pages.h"
#include "kernels/trees.h"

namespace kapitsa {
namespace {

KERNEL_TESTS(Attention);

struct Shape {
    std::size_t heads, kv_heads, width;
    std::size_t columns() const { return heads * width; }
};

/// Segments of a step with their caches. Gates lie behind the queries' own columns, as projections give them.
struct AttendCase {
    Shape shape;
    bool gated = true;
    std::vector<int> parents = {};
    std::vector<SegmentRows> segments = {};
    std::vector<uint> pages = {};
    Pages cache;
    std::size_t pages_taken = 0;
    std::vector<float> q = {}, gates = {};
    uint window = 0;
    bool whole = false;
    std::vector<float> sinks = {};  // [heads], or none

    AttendCase(const Shape& of_shape, bool with_gate)
        : shape(of_shape), gated(with_gate), cache(of_shape.kv_heads, of_shape.width, 40) {}

    /// Rows of a sequence of its own. Pages go out from the last to the first, every second one.
    void add(uint committed, const std::vector<int>& parents_from_0, bool commit) {
        const uint first = uint(parents.size()), rows = uint(parents_from_0.size());
        segments.push_back(
            {uint(segments.size()), first, rows, committed, uint(pages.size()), commit ? 1u : 0u});
        for (const int parent : parents_from_0)
            parents.push_back(parent == no_row ? no_row : parent + int(first));
        for (uint place = 0; place < committed + rows; ++place) {
            if (place % 16 == 0) {
                const std::size_t half = pages_taken / 20;
                pages.push_back(uint(39 - half - pages_taken % 20 * 2));
                ++pages_taken;
            }
            write_token(slot(segments.back(), place), uint(1000 * segments.size() + place));
        }
        q = random_floats(parents.size() * shape.columns(), 1, 2);
        gates = random_floats(parents.size() * 2 * shape.columns(), 2, 6);
    }

    void write_token(std::size_t at, std::uint32_t seed) {
        const auto numbers = random_floats(2 * cache.kv_heads * cache.width, seed, 2);
        for (std::size_t head = 0; head < cache.kv_heads; ++head)
            for (std::size_t i = 0; i < cache.width; ++i) {
                cache.key(at, head, i) = numbers[head * cache.width + i];
                cache.value(at, head, i) = numbers[(cache.kv_heads + head) * cache.width + i];
            }
    }

    std::size_t slot(const SegmentRows& segment, std::size_t place) const {
        return pages[segment.first_page + place / 16] * 16 + place % 16;
    }

    /// The slots that a row sees through the window, oldest first.
    std::vector<std::size_t> history(const SegmentRows& segment, std::size_t row) const {
        std::vector<std::size_t> slots;
        for (std::size_t place = 0; place < segment.committed; ++place) slots.push_back(slot(segment, place));
        if (whole)
            for (uint i = 0; i < segment.rows; ++i) slots.push_back(slot(segment, segment.committed + i));
        else
            for (const uint seen : path_to(parents, row))
                slots.push_back(slot(segment, segment.committed + seen - segment.first_row));
        if (window && slots.size() > window) slots.erase(slots.begin(), slots.end() - window);
        return slots;
    }

    std::vector<float> run(const Place& place, std::uint32_t threads = 1) const {
        return run_segments(place, segments, threads);
    }
    std::vector<float> run_segments(const Place& place, const std::vector<SegmentRows>& these,
                                    std::uint32_t threads = 1) const {
        Lab lab(place, threads);
        uint tiles = 0;
        for (const SegmentRows& segment : these)
            tiles += (segment.rows + attend_tile_rows - 1) / attend_tile_rows;
        const Out<float> o = lab.room(q.size());
        lab.run(attend_f32, {.q = lab.give(q),
                             .gate = gated ? lab.give(gates) + shape.width : nullptr,
                             .sinks = sinks.empty() ? nullptr : lab.give(sinks),
                             .keys = lab.give(cache.keys),
                             .values = lab.give(cache.values),
                             .pages = lab.give(pages),
                             .parents = lab.give(parents),
                             .segments = lab.give(these),
                             .o = o,
                             .count = uint(these.size()),
                             .heads = uint(shape.heads),
                             .kv_heads = uint(shape.kv_heads),
                             .width = uint(shape.width),
                             .gate_stride = uint(2 * shape.width),
                             .tiles = tiles,
                             .window = window,
                             .whole = whole ? 1u : 0u,
                             .scale = scale()});
        return lab.read(o, q.size());
    }

    float scale() const { return 1 / std::sqrt(float(shape.width)); }

    std::vector<double> obvious() {
        std::vector<double> o;
        for (const SegmentRows& segment : segments)
            for (std::size_t row = segment.first_row; row < segment.first_row + segment.rows; ++row)
                for (std::size_t head = 0; head < shape.heads; ++head) {
                    const auto mine = obvious_head(history(segment, row), row, head);
                    o.insert(o.end(), mine.begin(), mine.end());
                }
        return o;
    }

    std::vector<double> obvious_head(const std::vector<std::size_t>& slots, std::size_t row,
                                     std::size_t head) {
        const std::size_t width = shape.width, kv_head = head / (shape.heads / shape.kv_heads);
        const std::size_t at = row * shape.heads + head;
        std::vector<double> weights, sums(width, 0.0);
        double most = -HUGE_VAL, total = 0;
        for (const std::size_t slot : slots) {
            double score = 0;
            for (std::size_t i = 0; i < width; ++i)
                score += double(q[at * width + i]) * cache.key(slot, kv_head, i);
            weights.push_back(score * scale());
            most = std::fmax(most, weights.back());
        }
        if (!sinks.empty()) {
            most = std::fmax(most, double(sinks[head]));
            total = std::exp(sinks[head] - most);
        }
        for (std::size_t t = 0; t < slots.size(); ++t) {
            const double weight = std::exp(weights[t] - most);
            total += weight;
            for (std::size_t i = 0; i < width; ++i) sums[i] += weight * cache.value(slots[t], kv_head, i);
        }
        for (std::size_t i = 0; i < width; ++i) {
            sums[i] /= total;
            if (gated) sums[i] /= 1 + std::exp(-double(gates[(2 * at + 1) * width + i]));
        }
        return sums;
    }
};

constexpr Shape shapes[] = {{2, 2, 5},   {3, 1, 16}, {8, 2, 64}, {8, 1, 33},
                            {4, 1, 256}, {20, 1, 7}, {64, 1, 8}};
constexpr uint commits[] = {0, 1, 5, 15, 16, 17, 31, 33, 50};

TEST_P(Attention, OverAChainIsTheSoftmaxOfWhatIsBefore) {
    for (const Shape& shape : shapes)
        for (const uint committed : commits) {
            const bool gated = committed % 2 == 0;
            const int rows = committed == 50 ? 20 : int(committed % 9 + 1);
            for (const bool commit : {true, false}) {
                AttendCase it(shape, gated);
                it.add(committed, chain(rows), commit);
                EXPECT_LT(largest_error(it.run(GetParam()), it.obvious()), 4e-6)
                    << rows << " rows of width " << shape.width << " after " << committed;
            }
        }
}

TEST_P(Attention, OverAWholeSegmentSeesWhatIsBehindToo) {
    for (const Shape& shape : shapes)
        for (const uint rows : {1u, 7u, 16u, 35u}) {
            AttendCase it(shape, false);
            it.whole = true;
            it.add(0, chain(rows), true);
            EXPECT_LT(largest_error(it.run(GetParam()), it.obvious()), 4e-6)
                << rows << " rows of width " << shape.width;
        }
}

TEST_P(Attention, OverATreeIsTheSoftmaxOfTheAncestors) {
    for (const Shape& shape : shapes)
        for (const uint committed : commits) {
            AttendCase it(shape, committed % 2 == 1);
            it.add(committed, tree(), false);
            EXPECT_LT(largest_error(it.run(GetParam()), it.obvious()), 4e-6)
                << "width " << shape.width << " after " << committed;
        }
}

/// Five sequences in one step.
AttendCase mixed_case(const Shape& shape) {
    AttendCase it(shape, true);
    it.add(17, chain(9), true);
    it.add(5, tree(), false);
    it.add(33, chain(1), true);
    it.add(0, chain(20), true);
    it.add(31, chain(4), false);
    return it;
}

TEST_P(Attention, OfSeveralSequencesIsRightForEach) {
    for (const Shape& shape : shapes) {
        AttendCase it = mixed_case(shape);
        EXPECT_LT(largest_error(it.run(GetParam()), it.obvious()), 4e-6) << shape.width;
    }
}

TEST_P(Attention, GivesARowTheSameBitsWhateverRidesAlong) {
    for (const Shape& shape : shapes) {
        const AttendCase it = mixed_case(shape);
        const auto together = it.run(GetParam());
        for (const std::uint32_t threads : {2u, 3u})
            EXPECT_EQ(bits(it.run(GetParam(), threads)), bits(together));
        for (const SegmentRows& segment : it.segments)
            for (uint i = 0; i < segment.rows; ++i) {
                if (!segment.commit) continue;  // of a chain: the row alone, after what came before it
                SegmentRows alone = segment;
                alone.first_row += i, alone.committed += i, alone.rows = 1;
                const auto got = it.run_segments(GetParam(), {alone});
                EXPECT_EQ(bits(row_of(got, alone.first_row, shape.columns())),
                          bits(row_of(together, alone.first_row, shape.columns())))
                    << "width " << shape.width << ", row " << alone.first_row;
            }
    }
}

TEST_P(Attention, GivesARowOfATreeTheBitsItHasInAChain) {
    for (const Shape& shape : shapes)
        for (const uint committed : {0u, 5u, 15u, 31u, 50u}) {
            AttendCase it(shape, true);
            it.add(committed, tree(), false);
            const auto in_tree = it.run(GetParam());
            for (std::size_t row = 0; row < it.parents.size(); ++row) {
                const auto slots = it.history(it.segments[0], row);
                const auto path = path_to(it.parents, row);
                AttendCase alone(shape, true);
                alone.add(committed, chain(int(path.size())), true);
                for (std::size_t place = 0; place < slots.size(); ++place)
                    alone.cache.copy_token(it.cache, slots[place], alone.slot(alone.segments[0], place));
                alone.q = picked_rows(it.q, path, shape.columns());
                alone.gates = picked_rows(it.gates, path, 2 * shape.columns());
                EXPECT_EQ(bits(row_of(alone.run(GetParam()), path.size() - 1, shape.columns())),
                          bits(row_of(in_tree, row, shape.columns())))
                    << "width " << shape.width << ", row " << row << " after " << committed;
            }
        }
}

TEST_P(Attention, ADraftChainHasTheBitsOfACommittedOne) {
    for (const Shape& shape : shapes)
        for (const uint committed : commits) {
            AttendCase it(shape, true);
            it.add(committed, chain(12), true);
            const auto committed_bits = bits(it.run(GetParam()));
            it.segments[0].commit = 0;
            EXPECT_EQ(bits(it.run(GetParam())), committed_bits) << shape.width << " after " << committed;
        }
}

TEST_P(Attention, HoldsForLargeScoresAndShutGates) {
    AttendCase it({3, 1, 16}, true);
    it.add(33, chain(5), true);
    for (float& value : it.q) value *= 1000;
    for (std::size_t i = 0; i < it.gates.size(); ++i) it.gates[i] = i % 3 ? -300.0f : 300.0f;
    EXPECT_LT(largest_error(it.run(GetParam()), it.obvious()), 1e-4);
}

constexpr uint windows[] = {1, 2, 9, 15, 16, 17, 31, 40};

TEST_P(Attention, SeesTheWindowAloneInAChainAndInATree) {
    for (const uint window : windows)
        for (const uint committed : commits)
            for (const int kind : {0, 1, 2}) {
                AttendCase it({8, 2, 20}, committed % 2 == 0);
                it.add(committed, kind == 2 ? tree() : chain(19), kind == 0);
                it.window = window;
                EXPECT_LT(largest_error(it.run(GetParam()), it.obvious()), 4e-6)
                    << "a window of " << window << " after " << committed << ", kind " << kind;
            }
}

TEST_P(Attention, DoesNotReadWhatEveryRowsWindowHasPassed) {
    AttendCase it({3, 1, 16}, false);
    it.add(50, chain(2), true);
    it.window = 9;
    const auto expected = bits(it.run(GetParam()));
    for (std::size_t place = 0; place < 42; ++place)
        for (std::size_t i = 0; i < 16; ++i) {
            const std::size_t slot = it.slot(it.segments[0], place);
            it.cache.key(slot, 0, i) = std::nanf("");
            it.cache.value(slot, 0, i) = std::nanf("");
        }
    EXPECT_EQ(bits(it.run(GetParam())), expected);
}

TEST_P(Attention, ASinkTakesItsPartOfTheWeight) {
    for (const Shape& shape : shapes)
        for (const float scale : {1.0f, 300.0f})
            for (const uint window : {0u, 9u}) {
                AttendCase it(shape, false);
                it.add(33, chain(9), true);
                it.add(5, tree(), false);
                it.window = window;
                it.sinks = random_floats(shape.heads, 4, scale);
                EXPECT_LT(largest_error(it.run(GetParam()), it.obvious()), 4e-6)
                    << "width " << shape.width << ", sinks to " << scale << ", window " << window;
            }
}

TEST_P(Attention, ThroughAWindowARowHasTheSameBitsAloneAndInATreeAndWithAnyThreads) {
    for (const uint window : windows)
        for (const uint committed : {0u, 5u, 31u, 50u}) {
            AttendCase it({8, 2, 20}, true);
            it.add(committed, chain(12), true);
            it.window = window;
            it.sinks = random_floats(8, 4);
            const auto together = it.run(GetParam());
            EXPECT_EQ(bits(it.run(GetParam(), 3)), bits(together));
            for (uint i = 0; i < 12; ++i) {
                SegmentRows alone = it.segments[0];
                alone.first_row += i, alone.committed += i, alone.rows = 1;
                EXPECT_EQ(bits(row_of(it.run_segments(GetParam(), {alone}), i, it.shape.columns())),
                          bits(row_of(together, i, it.shape.columns())))
                    << "row " << i << ", window " << window;
            }
            it.segments[0].commit = 0;
            EXPECT_EQ(bits(it.run(GetParam())), bits(together)) << window << " after " << committed;
        }
}

TEST_P(Attention, GoesAsDeepAsADraftMay) {
    for (const uint committed : {0u, 3u}) {
        AttendCase it({3, 1, 16}, false);
        it.add(committed, chain(64), false);
        EXPECT_LT(largest_error(it.run(GetParam()), it.obvious()), 4e-6);
    }
}

}  // namespace
}  // namespace kapitsa

// What sparse attention attends to: index keys, the keys of blocks, and the tokens that rows choose by them,
// for chains and trees over pages out of order, against arithmetic in double. Tokens and block keys that a
// row must not see are NaN where they can be.
#include "kernels/choose_tokens.h"

#include <cmath>

#include "kernels/lab.h"
#include "kernels/pages.h"
#include "kernels/trees.h"

namespace kapitsa {
namespace {

KERNEL_TESTS(TokenChoice);

constexpr float epsilon = 1e-6f;
constexpr std::size_t pages_of_cache = 40;

/// The rows of a step, and where the tokens of their histories lie.
struct Step {
    std::vector<int> parents = {};
    std::vector<uint> positions = {}, slots = {}, pages = {};
    std::vector<SegmentRows> segments = {};

    std::size_t rows() const { return parents.size(); }

    /// Rows of a sequence of its own. Pages go out from the last to the first, every second one.
    void add(uint committed, const std::vector<int>& parents_from_0, bool commit) {
        const uint first = uint(rows()), count = uint(parents_from_0.size());
        const std::size_t first_page = pages.size();
        segments.push_back(
            {uint(segments.size()), first, count, committed, uint(first_page), commit ? 1u : 0u});
        for (uint place = 0; place < committed + count; place += 16)
            pages.push_back(uint(pages_of_cache - 1 - pages.size() / 20 - pages.size() % 20 * 2));
        for (uint row = 0; row < count; ++row) {
            const int parent = parents_from_0[row];
            parents.push_back(parent == no_row ? no_row : parent + int(first));
            slots.push_back(slot(segments.back(), committed + row));
            positions.push_back(committed + uint(path_to(parents, first + row).size()) - 1);
        }
    }

    uint slot(const SegmentRows& segment, std::size_t place) const {
        return pages[segment.first_page + place / 16] * 16 + uint(place % 16);
    }
    const SegmentRows& segment_of(std::size_t row) const {
        std::size_t s = 0;
        while (row >= segments[s].first_row + segments[s].rows) ++s;
        return segments[s];
    }
    /// The slots that a row sees, oldest first, its own the last.
    std::vector<uint> history(std::size_t row) const {
        const SegmentRows& segment = segment_of(row);
        std::vector<uint> seen;
        for (std::size_t place = 0; place < segment.committed; ++place) seen.push_back(slot(segment, place));
        for (const uint ancestor : path_to(parents, row)) seen.push_back(slots[ancestor]);
        return seen;
    }
    HistoryRows give(Lab& lab) const {
        return {.positions = lab.give(positions),
                .parents = lab.give(parents),
                .slots = lab.give(slots),
                .pages = lab.give(pages),
                .segments = lab.give(segments),
                .rows = uint(rows()),
                .count = uint(segments.size())};
    }
};

/// Five sequences in one step.
Step mixed_step() {
    Step step;
    step.add(17, chain(9), true);
    step.add(5, tree(), false);
    step.add(70, chain(1), true);
    step.add(0, chain(30), true);
    step.add(31, chain(4), false);
    return step;
}

/// x / rms(x) * weight, then i rotated with i + half by angles that `angle(i)` gives.
template <typename Angle>
std::vector<double> obvious_head(const std::vector<double>& x, const std::vector<float>& weight,
                                 std::size_t half, Angle angle) {
    double squares = 0;
    for (const double value : x) squares += value * value;
    std::vector<double> y;
    for (std::size_t i = 0; i < x.size(); ++i)
        y.push_back(x[i] / std::sqrt(squares / double(x.size()) + epsilon) * weight[i]);
    for (std::size_t i = 0; i < half; ++i) {
        const double a = y[i], b = y[i + half];
        y[i] = a * std::cos(angle(i)) - b * std::sin(angle(i));
        y[i + half] = b * std::cos(angle(i)) + a * std::sin(angle(i));
    }
    return y;
}

struct IndexShape {
    std::size_t heads, width, half, ratio, budget;
};
constexpr IndexShape index_shapes[] = {{4, 16, 4, 4, 4},   {1, 5, 1, 1, 7},  {3, 33, 16, 3, 2},
                                       {4, 128, 32, 4, 9}, {2, 20, 0, 5, 1}, {8, 7, 2, 20, 2}};

TEST_P(TokenChoice, IndexQueriesAreNormedAndRotatedAndKeysPutAwayRaw) {
    const std::vector<uint> slots{37, 0, 15, 16, 63};
    const std::size_t rows = slots.size();
    for (const IndexShape& s : index_shapes) {
        const std::size_t columns = (s.heads + 1) * s.width;
        const auto qk = random_floats(rows * columns, 1, 3), q_norm = random_floats(s.width, 2, 2),
                   angles = random_floats(rows * s.half, 3, 3);
        std::vector<float> cosines, sines;
        for (const float angle : angles) {
            cosines.push_back(std::cos(angle));
            sines.push_back(std::sin(angle));
        }
        std::vector<double> want;
        Pages pages(1, s.width, 4);
        pages.keys = random_floats(pages.keys.size(), 4);
        const auto before = pages.keys;
        for (std::size_t row = 0; row < rows; ++row) {
            for (std::size_t head = 0; head < s.heads; ++head) {
                const float* x = &qk[row * columns + head * s.width];
                for (const double y : obvious_head({x, x + s.width}, q_norm, s.half,
                                                   [&](std::size_t i) { return angles[row * s.half + i]; }))
                    want.push_back(y);
            }
            for (std::size_t i = 0; i < s.width; ++i)
                pages.key(slots[row], 0, i) = qk[row * columns + s.heads * s.width + i];
        }
        Lab lab(GetParam(), 2);
        const Out<float> rotated = lab.room(want.size()), keys = lab.room(before);
        lab.run(index_inputs_f32, {.qk = lab.give(qk),
                                   .q_norm = lab.give(q_norm),
                                   .cosines = lab.give(cosines),
                                   .sines = lab.give(sines),
                                   .slots = lab.give(slots),
                                   .rotated = rotated,
                                   .keys = keys,
                                   .rows = uint(rows),
                                   .heads = uint(s.heads),
                                   .width = uint(s.width),
                                   .half = uint(s.half),
                                   .epsilon = epsilon});
        EXPECT_LT(largest_error(lab.read(rotated, want.size()), want), 4e-6) << s.heads << " x " << s.width;
        EXPECT_EQ(bits(lab.read(keys, before.size())), bits(pages.keys));
    }
}

/// An indexer over a step: raw keys of all tokens, block keys at all slots that complete a block, queries.
struct IndexCase {
    IndexShape shape;
    Step step;
    Pages pages{1, shape.width, pages_of_cache};  // raw keys; block keys
    std::vector<float> q = random_floats(step.rows() * shape.heads * shape.width, 11, 2);
    std::vector<float> k_norm = random_floats(shape.width, 12, 2),
                       frequencies = random_floats(shape.half, 13);

    IndexCase(const IndexShape& of_shape, Step of_step) : shape(of_shape), step(std::move(of_step)) {
        for (std::size_t row = 0; row < step.rows(); ++row) {
            const auto seen = step.history(row);
            for (std::size_t place = 0; place < seen.size(); ++place) {
                const auto numbers = random_floats(2 * shape.width, 1000 + seen[place], 2);
                for (std::size_t i = 0; i < shape.width; ++i) {
                    pages.key(seen[place], 0, i) = numbers[i];
                    if ((place + 1) % shape.ratio == 0)
                        pages.value(seen[place], 0, i) = numbers[shape.width + i];
                }
            }
        }
    }

    std::size_t most() const { return shape.budget * shape.ratio + shape.ratio - 1; }

    /// The block keys of all rows that complete a block.
    std::vector<float> blocks(const Place& place, std::uint32_t threads = 1) const {
        Lab lab(place, threads);
        const Out<float> room = lab.room(pages.values);
        lab.run(index_blocks_f32, {.history = step.give(lab),
                                   .keys = lab.give(pages.keys),
                                   .k_norm = lab.give(k_norm),
                                   .frequencies = lab.give(frequencies),
                                   .blocks = room,
                                   .width = uint(shape.width),
                                   .half = uint(shape.half),
                                   .ratio = uint(shape.ratio),
                                   .epsilon = epsilon});
        return lab.read(room, pages.values.size());
    }

    /// By row, the chosen slots, sought in so many parts.
    std::vector<std::vector<uint>> choose(const Place& place, std::uint32_t threads = 1,
                                          uint parts = 1) const {
        Lab lab(place, threads);
        const std::size_t candidates = step.rows() * parts * shape.budget;
        const Out<float> scores = lab.room(candidates), numbers = lab.room(candidates);
        lab.run(best_blocks_f32, {.history = step.give(lab),
                                  .q = lab.give(q),
                                  .blocks = lab.give(pages.values),
                                  .scores = scores,
                                  .numbers = reinterpret_cast<Out<uint>>(numbers),
                                  .heads = uint(shape.heads),
                                  .width = uint(shape.width),
                                  .ratio = uint(shape.ratio),
                                  .budget = uint(shape.budget),
                                  .parts = parts});
        const Out<float> chosen = lab.room(step.rows() * most()), counts = lab.room(step.rows());
        lab.run(choose_tokens_f32, {.history = step.give(lab),
                                    .scores = scores,
                                    .numbers = reinterpret_cast<In<uint>>(numbers),
                                    .chosen = reinterpret_cast<Out<uint>>(chosen),
                                    .counts = reinterpret_cast<Out<uint>>(counts),
                                    .ratio = uint(shape.ratio),
                                    .budget = uint(shape.budget),
                                    .parts = parts});
        const auto slots = bits(lab.read(chosen, step.rows() * most())),
                   count = bits(lab.read(counts, step.rows()));
        std::vector<std::vector<uint>> all;
        for (std::size_t row = 0; row < step.rows(); ++row) {
            EXPECT_LE(count[row], most());
            const auto begin = slots.begin() + std::ptrdiff_t(row * most());
            all.emplace_back(begin, begin + std::ptrdiff_t(std::min<std::size_t>(count[row], most())));
        }
        return all;
    }

    std::vector<uint> obvious_choice(std::size_t row) {
        const auto seen = step.history(row);
        const std::size_t blocks = seen.size() / shape.ratio;
        std::vector<std::pair<double, std::size_t>> best;  // the score's negative, the block
        for (std::size_t b = 0; b < blocks; ++b) {
            double score = 0;
            for (std::size_t head = 0; head < shape.heads; ++head) {
                double match = 0;
                for (std::size_t i = 0; i < shape.width; ++i)
                    match += double(q[(row * shape.heads + head) * shape.width + i]) *
                             pages.value(seen[(b + 1) * shape.ratio - 1], 0, i);
                score += match > 0 ? match : 0;  // what is no number is not above 0
            }
            best.emplace_back(-score, b);
        }
        std::ranges::sort(best);
        best.resize(std::min(best.size(), shape.budget));
        std::vector<uint> chosen;
        for (std::size_t place = 0; place < seen.size(); ++place)
            if (place >= blocks * shape.ratio ||
                std::ranges::any_of(best, [&](const auto& it) { return it.second == place / shape.ratio; }))
                chosen.push_back(seen[place]);
        return chosen;
    }
};

TEST_P(TokenChoice, ARowThatCompletesABlockMakesItsKey) {
    for (const IndexShape& s : index_shapes) {
        IndexCase it(s, mixed_step());
        auto want = it.pages;
        std::vector<double> keys;
        std::vector<float> got;
        const auto after = it.blocks(GetParam());
        EXPECT_EQ(bits(it.blocks(GetParam(), 3)), bits(after));
        for (std::size_t row = 0; row < it.step.rows(); ++row) {
            const auto seen = it.step.history(row);
            if (seen.size() % s.ratio != 0) continue;
            std::vector<double> mean(s.width, 0.0);
            const std::size_t begin = seen.size() - s.ratio;
            for (std::size_t place = begin; place < seen.size(); ++place)
                for (std::size_t i = 0; i < s.width; ++i)
                    mean[i] += it.pages.key(seen[place], 0, i) / double(s.ratio);
            const auto key = obvious_head(mean, it.k_norm, s.half, [&](std::size_t i) {
                return double(float(begin) * it.frequencies[i]);  // rounded to f32, as angles are
            });
            keys.insert(keys.end(), key.begin(), key.end());
            for (std::size_t i = 0; i < s.width; ++i) {
                got.push_back(after[std::size_t(seen.back()) * s.width + i]);
                want.value(seen.back(), 0, i) = got.back();
            }
        }
        EXPECT_FALSE(keys.empty());
        EXPECT_LT(largest_error(got, keys), 2e-5) << s.width << " wide, blocks of " << s.ratio;
        EXPECT_EQ(bits(after), bits(want.values));  // and nothing else was touched
    }
}

TEST_P(TokenChoice, ARowChoosesItsBestBlocksAndWhatStandsBehindTheLast) {
    for (const IndexShape& s : index_shapes) {
        IndexCase it(s, mixed_step());
        const auto chosen = it.choose(GetParam());
        for (const uint parts : {2u, 3u, 7u, 16u, 100u}) EXPECT_EQ(it.choose(GetParam(), 3, parts), chosen);
        for (std::size_t row = 0; row < it.step.rows(); ++row)
            EXPECT_EQ(chosen[row], it.obvious_choice(row))
                << "row " << row << ", the best " << s.budget << " of blocks of " << s.ratio;
    }
}

TEST_P(TokenChoice, OfEqualBlocksTheEarlierAreChosen) {
    for (const float value : {0.0f, 1.0f, -1.0f, std::nanf("")}) {
        Step step;
        step.add(70, chain(3), true);
        IndexCase it({4, 16, 4, 4, 4}, step);
        std::ranges::fill(it.q, 1.0f);
        for (float& block : it.pages.values) block = value;
        for (const uint parts : {1u, 3u, 16u})
            for (const auto& chosen : it.choose(GetParam(), 1, parts)) {
                ASSERT_GE(chosen.size(), 16u);
                for (std::size_t place = 0; place < 16; ++place)
                    EXPECT_EQ(chosen[place], step.slot(step.segments[0], place)) << value;
            }
    }
}

TEST_P(TokenChoice, ABlockThatIsNoNumberIsTheWorst) {
    Step step;
    step.add(31, chain(1), true);
    IndexCase it({4, 16, 4, 4, 7}, step);
    std::ranges::fill(it.q, 1.0f);
    std::ranges::fill(it.pages.values, 1.0f);
    for (std::size_t i = 0; i < 16; ++i) it.pages.value(step.slot(step.segments[0], 7), 0, i) = std::nanf("");
    const auto chosen = it.choose(GetParam()).front();
    EXPECT_EQ(chosen.size(), 28u);
    for (std::size_t place = 4; place < 8; ++place)
        EXPECT_EQ(std::ranges::count(chosen, step.slot(step.segments[0], place)), 0);
}

TEST_P(TokenChoice, ARowMayChooseAnythingButItself) {
    Step step;
    step.add(31, chain(1), true);
    IndexCase it({1, 16, 0, 4, 4}, step);
    std::ranges::fill(it.q, 1.0f);
    std::ranges::fill(it.pages.values, 1.0f);
    for (std::size_t i = 0; i < 16; ++i) it.pages.value(step.slots[0], 0, i) = -1.0f;
    const auto chosen = it.choose(GetParam()).front();
    EXPECT_EQ(std::ranges::count(chosen, step.slots[0]), 0);
}

/// Where the chosen slots stand in a row's history.
std::vector<std::size_t> places(const std::vector<uint>& chosen, const std::vector<uint>& history) {
    std::vector<std::size_t> all;
    for (const uint slot : chosen)
        all.push_back(std::size_t(std::ranges::find(history, slot) - history.begin()));
    return all;
}

TEST_P(TokenChoice, ARowOfATreeChoosesAsInAChain) {
    for (const IndexShape& s : index_shapes)
        for (const uint committed : {0u, 5u, 31u, 50u}) {
            Step step;
            step.add(committed, tree(), false);
            IndexCase it(s, step);
            it.pages.values = it.blocks(GetParam());
            const auto in_tree = it.choose(GetParam());
            for (std::size_t row = 0; row < step.rows(); ++row) {
                const auto path = path_to(step.parents, row);
                const auto seen = step.history(row);
                Step as_chain;
                as_chain.add(committed, chain(int(path.size())), true);
                IndexCase alone(s, as_chain);
                const auto slots = as_chain.history(path.size() - 1);
                for (std::size_t place = 0; place < seen.size(); ++place)
                    alone.pages.copy_token(it.pages, seen[place], slots[place]);
                alone.q = picked_rows(it.q, path, s.heads * s.width);
                auto before = alone.pages.values;
                alone.pages.values = alone.blocks(GetParam());
                EXPECT_EQ(bits(alone.pages.values), bits(before));  // the tree made the same keys
                EXPECT_EQ(places(alone.choose(GetParam()).back(), slots), places(in_tree[row], seen))
                    << "row " << row << " after " << committed << ", blocks of " << s.ratio;
            }
        }
}

TEST_P(TokenChoice, GoesAsDeepAsADraftMay) {
    for (const uint committed : {0u, 3u}) {
        Step step;
        step.add(committed, chain(64), false);
        IndexCase it({2, 16, 4, 4, 6}, step);
        const auto chosen = it.choose(GetParam());
        for (std::size_t row = 0; row < step.rows(); ++row) EXPECT_EQ(chosen[row], it.obvious_choice(row));
    }
}

}  // namespace
}  // namespace kapitsa

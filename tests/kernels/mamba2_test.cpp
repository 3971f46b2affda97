// The state-space rule of Mamba-2 in all its forms against the recurrence in double: row by row, in chunks,
// over trees, and replayed into states.
#include "kernels/mamba2.h"

#include <cmath>

#include "kernels/lab.h"
#include "kernels/trees.h"

namespace kapitsa {
namespace {

KERNEL_TESTS(StateSpace);

struct Shape {
    uint heads, groups, head_width, state_width;
    std::size_t outputs() const { return std::size_t(heads) * head_width; }
    std::size_t channels() const { return outputs() + 2 * std::size_t(groups) * state_width; }
    std::size_t state() const { return outputs() * state_width; }
};
constexpr Shape odd{3, 3, 5, 7}, grouped{6, 2, 16, 32}, published{4, 2, 80, 128}, narrow{2, 1, 1, 1};

/// Inputs as the convolution and Mamba2Steps leave them.
struct Rows {
    Shape shape;
    std::size_t rows;
    std::vector<float> xbc, dt, rate, skip;

    /// @param strongest the decay of a row goes down to exp(-strongest)
    static Rows random(const Shape& shape, std::size_t rows, std::uint32_t seed, float strongest = 1) {
        Rows it{shape,
                rows,
                random_floats(rows * shape.channels(), seed),
                random_floats(rows * shape.heads, seed + 1, 0.5f),
                random_floats(shape.heads, seed + 2, strongest / 2),
                random_floats(shape.heads, seed + 3)};
        for (float& value : it.dt) value += 0.5f;
        for (float& value : it.rate) value += strongest / 2;
        return it;
    }

    Rows picked(const std::vector<uint>& list) const {
        return {
            shape, list.size(), picked_rows(xbc, list, shape.channels()), picked_rows(dt, list, shape.heads),
            rate,  skip};
    }
    Rows part(std::size_t first, std::size_t count) const {
        std::vector<uint> list;
        for (std::size_t i = 0; i < count; ++i) list.push_back(uint(first + i));
        return picked(list);
    }
};

/// Moves all heads' states on by one row, and appends its outputs.
void obvious_row(const Rows& in, std::size_t row, std::vector<double>& states, std::vector<double>& o) {
    const Shape& s = in.shape;
    for (std::size_t head = 0; head < s.heads; ++head) {
        const float* x = &in.xbc[row * s.channels()];
        const float* b = x + s.outputs() + head / (s.heads / s.groups) * s.state_width;
        const float* c = b + s.groups * s.state_width;
        const double dt = in.dt[row * s.heads + head], decay = std::exp(-double(in.rate[head]) * dt);
        double* state = &states[head * s.state_width * s.head_width];
        for (std::size_t p = 0; p < s.head_width; ++p) {
            const double mine = x[head * s.head_width + p];
            double y = double(in.skip[head]) * mine;
            for (std::size_t i = 0; i < s.state_width; ++i) {
                double& place = state[i * s.head_width + p];
                place = decay * place + b[i] * dt * mine;
                y += c[i] * place;
            }
            o.push_back(y);
        }
    }
}

/// All rows one after the other, from a state.
std::vector<double> obvious_chain(const Rows& in, std::vector<double>& states) {
    std::vector<double> o;
    for (std::size_t row = 0; row < in.rows; ++row) obvious_row(in, row, states, o);
    return o;
}

struct Outcome {
    std::vector<float> o, states;
};

enum class Form { rows, chunks };

/// A launch over segments; `states` are those of all sequences.
Outcome run(const Place& place, Form form, const Rows& in, const std::vector<SegmentRows>& segments,
            const std::vector<int>& parents, const std::vector<float>& states, std::uint32_t threads = 1) {
    const Shape& s = in.shape;
    Lab lab(place, threads);
    const Out<float> moved = lab.room(states), o = lab.room(in.rows * s.outputs());
    const In<float> xbc = lab.give(in.xbc), dt = lab.give(in.dt), rate = lab.give(in.rate),
                    skip = lab.give(in.skip);
    const In<SegmentRows> given = lab.give(segments);
    const uint count = uint(segments.size());
    if (form == Form::rows)
        lab.run(mamba2_rows_f32, {xbc, dt, rate, skip, lab.give(parents), given, moved, o, count, s.heads,
                                  s.groups, s.head_width, s.state_width});
    else
        lab.run(mamba2_chunks_f32, {xbc, dt, rate, skip, given, moved, o, count, s.heads, s.groups,
                                    s.head_width, s.state_width});
    return {lab.read(o, in.rows * s.outputs()), lab.read(moved, states.size())};
}

/// One chain of one sequence, committed.
Outcome run_chain(const Place& place, Form form, const Rows& in, const std::vector<float>& state,
                  uint committed = 0) {
    return run(place, form, in, {{0, 0, uint(in.rows), committed, 0, 1}}, chain(int(in.rows)), state);
}

std::vector<double> doubles(const std::vector<float>& values) { return {values.begin(), values.end()}; }

/// That a chain comes out as the recurrence does, outputs and state.
void expect_chain(const Place& place, Form form, const Rows& in, uint committed, double limit) {
    SCOPED_TRACE(std::to_string(in.rows) + " rows of width " + std::to_string(in.shape.state_width) +
                 " after " + std::to_string(committed));
    const auto start = random_floats(in.shape.state(), 99);
    auto state = doubles(start);
    const auto o = obvious_chain(in, state);
    const Outcome got = run_chain(place, form, in, start, committed);
    EXPECT_LT(worst_relative(got.o, o), limit);
    EXPECT_LT(largest_error(got.states, state), limit);
}

TEST_P(StateSpace, RowByRowIsTheRecurrence) {
    for (const Shape& shape : {odd, grouped, narrow})
        for (const std::size_t rows : {1u, 2u, 7u, 63u, 64u, 65u, 200u})
            expect_chain(GetParam(), Form::rows, Rows::random(shape, rows, 1), 0, 6e-6);
    expect_chain(GetParam(), Form::rows, Rows::random(published, 70, 1), 0, 6e-6);
}

TEST_P(StateSpace, InChunksIsTheRecurrenceWhereverTheGridFalls) {
    for (const Shape& shape : {odd, narrow})
        for (const std::size_t rows : {1u, 2u, 3u, 59u, 63u, 64u, 65u, 130u, 200u})
            for (const uint committed : {0u, 5u, 63u, 64u})
                expect_chain(GetParam(), Form::chunks, Rows::random(shape, rows, 1), committed, 6e-6);
    expect_chain(GetParam(), Form::chunks, Rows::random(grouped, 200, 1), 5, 6e-6);
    expect_chain(GetParam(), Form::chunks, Rows::random(published, 70, 1), 63, 6e-6);
}

TEST_P(StateSpace, HoldsWithStrongDecayAndWithNone) {
    for (const Form form : {Form::rows, Form::chunks}) {
        for (const float strongest : {0.0f, 15.0f, 300.0f})
            expect_chain(GetParam(), form, Rows::random(odd, 130, 4, strongest), 5, 1e-5);
        // Strong decays, then weak ones: sums in f32 would have lost what the weak ones need.
        Rows falling = Rows::random(odd, 130, 4, 2);
        for (std::size_t row = 0; row < falling.rows; ++row)
            for (std::size_t head = 0; head < odd.heads; ++head)
                falling.dt[row * odd.heads + head] = row % 64 < 40 ? 15 : 0.001f;
        expect_chain(GetParam(), form, falling, 0, 1e-5);
        Rows still = Rows::random(odd, 130, 4);  // steps of nothing
        for (float& dt : still.dt) dt = 0;
        expect_chain(GetParam(), form, still, 5, 1e-6);
    }
}

TEST_P(StateSpace, InChunksCutOnTheGridIsTheSameToTheBit) {
    const Rows all = Rows::random(grouped, 200, 3);
    const auto start = random_floats(grouped.state(), 9);
    const Outcome whole = run_chain(GetParam(), Form::chunks, all, start, 5);
    for (const uint first : {59u, 123u}) {  // 5 + 59 = 64, 5 + 123 = 128
        const Outcome a = run_chain(GetParam(), Form::chunks, all.part(0, first), start, 5);
        const Outcome b =
            run_chain(GetParam(), Form::chunks, all.part(first, all.rows - first), a.states, 5 + first);
        EXPECT_EQ(bits(joined(a.o, b.o)), bits(whole.o)) << first;
        EXPECT_EQ(bits(b.states), bits(whole.states)) << first;
    }
}

TEST_P(StateSpace, RowByRowCutAnywhereIsTheSameToTheBit) {
    const Rows all = Rows::random(published, 20, 3);
    const auto start = random_floats(published.state(), 9);
    const Outcome whole = run_chain(GetParam(), Form::rows, all, start);
    for (const uint first : {1u, 7u, 19u}) {
        const Outcome a = run_chain(GetParam(), Form::rows, all.part(0, first), start);
        const Outcome b = run_chain(GetParam(), Form::rows, all.part(first, all.rows - first), a.states);
        EXPECT_EQ(bits(joined(a.o, b.o)), bits(whole.o)) << first;
        EXPECT_EQ(bits(b.states), bits(whole.states)) << first;
    }
}

/// A chain of 9 of sequence 2, a tree of 16 of sequence 0, one row of sequence 3, a draft chain of 4 of 1.
struct MixedStep {
    std::vector<int> parents = joined(joined(joined(chain(9), tree(9)), {no_row}), chain(4, 26));
    std::vector<SegmentRows> segments{
        {2, 0, 9, 31, 0, 1}, {0, 9, 16, 7, 0, 0}, {3, 25, 1, 8, 0, 1}, {1, 26, 4, 1, 0, 0}};
    Rows in;
    std::vector<float> states;

    explicit MixedStep(const Shape& shape)
        : in(Rows::random(shape, parents.size(), 5)), states(random_floats(4 * shape.state(), 6)) {}

    const SegmentRows& segment_of(std::size_t row) const {
        std::size_t s = 0;
        while (row >= segments[s].first_row + segments[s].rows) ++s;
        return segments[s];
    }
    std::vector<float> state_before(uint sequence) const {
        return row_of(states, sequence, in.shape.state());
    }
};

TEST_P(StateSpace, OverTreesFollowsTheAncestorsAndLeavesTheState) {
    for (const Shape& shape : {odd, grouped, published}) {
        const MixedStep step(shape);
        const Outcome got = run(GetParam(), Form::rows, step.in, step.segments, step.parents, step.states);
        for (std::size_t row = 0; row < step.parents.size(); ++row) {
            const Rows path = step.in.picked(path_to(step.parents, row));
            auto state = doubles(step.state_before(step.segment_of(row).sequence));
            const auto o = obvious_chain(path, state);
            EXPECT_LT(worst_relative(row_of(got.o, row, shape.outputs()),
                                     row_of(o, path.rows - 1, shape.outputs())),
                      6e-6)
                << row;
        }
        for (const SegmentRows& segment : step.segments) {
            const auto before = step.state_before(segment.sequence);
            const auto after = row_of(got.states, segment.sequence, shape.state());
            auto state = doubles(before);
            obvious_chain(step.in.part(segment.first_row, segment.rows), state);
            if (segment.commit)
                EXPECT_LT(largest_error(after, state), 6e-6);
            else
                EXPECT_EQ(bits(after), bits(before));
        }
    }
}

TEST_P(StateSpace, GivesARowTheBitsItHasAloneInAChain) {
    for (const Shape& shape : {odd, published}) {
        const MixedStep step(shape);
        const Outcome got = run(GetParam(), Form::rows, step.in, step.segments, step.parents, step.states);
        for (const std::uint32_t threads : {2u, 3u}) {
            const Outcome again =
                run(GetParam(), Form::rows, step.in, step.segments, step.parents, step.states, threads);
            EXPECT_EQ(bits(again.o), bits(got.o));
            EXPECT_EQ(bits(again.states), bits(got.states));
        }
        for (std::size_t row = 0; row < step.parents.size(); ++row) {
            const Rows path = step.in.picked(path_to(step.parents, row));
            const auto before = step.state_before(step.segment_of(row).sequence);
            const Outcome alone = run_chain(GetParam(), Form::rows, path, before);
            EXPECT_EQ(bits(row_of(alone.o, path.rows - 1, shape.outputs())),
                      bits(row_of(got.o, row, shape.outputs())))
                << row;
        }
    }
}

TEST_P(StateSpace, SeveralChunkedChainsAreEachAsAlone) {
    const Rows in = Rows::random(odd, 200, 5);
    const auto states = random_floats(3 * odd.state(), 6);
    const std::vector<SegmentRows> segments{
        {2, 0, 70, 3, 0, 1}, {0, 70, 129, 64, 0, 1}, {1, 199, 1, 63, 0, 1}};
    for (const std::uint32_t threads : {1u, 3u}) {
        const Outcome got = run(GetParam(), Form::chunks, in, segments, {}, states, threads);
        for (const SegmentRows& s : segments) {
            const Outcome alone = run_chain(GetParam(), Form::chunks, in.part(s.first_row, s.rows),
                                            row_of(states, s.sequence, odd.state()), s.committed);
            const std::vector<float> o(
                got.o.begin() + std::ptrdiff_t(s.first_row * odd.outputs()),
                got.o.begin() + std::ptrdiff_t((s.first_row + s.rows) * odd.outputs()));
            EXPECT_EQ(bits(o), bits(alone.o));
            EXPECT_EQ(bits(row_of(got.states, s.sequence, odd.state())), bits(alone.states));
        }
    }
}

TEST_P(StateSpace, ACommittedPathIsAsIfItHadBeenDecoded) {
    for (const Shape& shape : {odd, grouped, published}) {
        const Rows in = Rows::random(shape, 16, 5);
        const auto states = random_floats(4 * shape.state(), 6);
        const std::vector<uint> list{0, 1, 4, 6, 7, 8, 9, 10, 11, 14};
        const std::vector<CommitPath> paths{{3, 0, 4}, {1, 4, 6}, {0, 2, 0}};  // of sequence 2: nothing
        Lab lab(GetParam());
        const Out<float> moved = lab.room(states);
        lab.run(mamba2_commit_f32,
                {lab.give(in.xbc), lab.give(in.dt), lab.give(in.rate), lab.give(in.skip), lab.give(list),
                 lab.give(paths), moved, 3, shape.heads, shape.groups, shape.head_width, shape.state_width});
        const auto got = lab.read(moved, states.size());
        EXPECT_EQ(bits(row_of(got, 0, shape.state())), bits(row_of(states, 0, shape.state())));
        EXPECT_EQ(bits(row_of(got, 2, shape.state())), bits(row_of(states, 2, shape.state())));
        for (const CommitPath& path : {paths[0], paths[1]}) {
            const Rows mine = in.picked({list.begin() + path.first, list.begin() + path.first + path.rows});
            const auto before = row_of(states, path.sequence, shape.state()),
                       after = row_of(got, path.sequence, shape.state());
            auto state = doubles(before);
            obvious_chain(mine, state);
            EXPECT_LT(largest_error(after, state), 6e-6);
            EXPECT_EQ(bits(after), bits(run_chain(GetParam(), Form::rows, mine, before).states));
        }
    }
}

TEST_P(StateSpace, StepsAreSoftplusWithinTheirBounds) {
    constexpr std::size_t rows = 5, heads = 7;
    auto raw = random_floats(rows * heads, 1, 40);
    const auto bias = random_floats(heads, 2, 3);
    raw[0] = -120, raw[1] = 120, raw[2] = -1e9f, raw[3] = 1e9f, raw[4] = 0;
    for (const auto& [least, most] : {std::pair{0.0f, HUGE_VALF}, {0.001f, 0.1f}, {0.5f, HUGE_VALF}}) {
        std::vector<double> want;
        for (std::size_t i = 0; i < raw.size(); ++i) {
            const double x = double(raw[i] + bias[i % heads]);
            want.push_back(std::clamp(x > 30 ? x : std::log1p(std::exp(x)), double(least), double(most)));
        }
        Lab lab(GetParam());
        const Out<float> dt = lab.room(raw.size());
        lab.run(mamba2_steps_f32, {lab.give(raw), lab.give(bias), dt, rows, heads, least, most});
        EXPECT_LT(worst_relative(lab.read(dt, raw.size()), want), 1e-6) << least;
    }
}

}  // namespace
}  // namespace kapitsa

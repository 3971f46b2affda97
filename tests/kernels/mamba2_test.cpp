// The state-space rule of Mamba-2 in all its forms against the recurrence in double: row by row, in chunks,
// over trees, and replayed into states.
#include "kernels/mamba2.h"

#include <cmath>

#include "kernels/recurrence.h"

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
    static constexpr double limit = 6e-6;

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

    /// Moves all heads' states on by one row, and appends its outputs.
    void obvious_row(std::size_t row, std::vector<double>& states, std::vector<double>& o) const {
        const Shape& s = shape;
        for (std::size_t head = 0; head < s.heads; ++head) {
            const float* x = &xbc[row * s.channels()];
            const float* b = x + s.outputs() + head / (s.heads / s.groups) * s.state_width;
            const float* c = b + s.groups * s.state_width;
            const double step = dt[row * s.heads + head], decay = std::exp(-double(rate[head]) * step);
            double* state = &states[head * s.state_width * s.head_width];
            for (std::size_t p = 0; p < s.head_width; ++p) {
                const double mine = x[head * s.head_width + p];
                double y = double(skip[head]) * mine;
                for (std::size_t i = 0; i < s.state_width; ++i) {
                    double& place = state[i * s.head_width + p];
                    place = decay * place + b[i] * step * mine;
                    y += c[i] * place;
                }
                o.push_back(y);
            }
        }
    }

    using Segments = std::vector<SegmentRows>;
    void launch_rows(Lab& lab, const std::vector<int>& parents, const Segments& segments, Out<float> states,
                     Out<float> o) const {
        lab.run(mamba2_rows_f32, {lab.give(xbc), lab.give(dt), lab.give(rate), lab.give(skip),
                                  lab.give(parents), lab.give(segments), states, o, uint(segments.size()),
                                  shape.heads, shape.groups, shape.head_width, shape.state_width});
    }
    void launch_chunks(Lab& lab, const Segments& segments, Out<float> states, Out<float> o) const {
        lab.run(mamba2_chunks_f32,
                {lab.give(xbc), lab.give(dt), lab.give(rate), lab.give(skip), lab.give(segments), states, o,
                 uint(segments.size()), shape.heads, shape.groups, shape.head_width, shape.state_width});
    }
    void launch_commit(Lab& lab, const std::vector<uint>& list, const std::vector<CommitPath>& paths,
                       Out<float> states) const {
        lab.run(mamba2_commit_f32,
                {lab.give(xbc), lab.give(dt), lab.give(rate), lab.give(skip), lab.give(list), lab.give(paths),
                 states, uint(paths.size()), shape.heads, shape.groups, shape.head_width, shape.state_width});
    }
};

TEST_P(StateSpace, RowByRowIsTheRecurrence) {
    for (const Shape& shape : {odd, grouped, narrow})
        for (const std::size_t rows : {1u, 2u, 7u, 63u, 64u, 65u, 200u})
            expect_chain(GetParam(), Form::rows, Rows::random(shape, rows, 1), 0);
    expect_chain(GetParam(), Form::rows, Rows::random(published, 70, 1), 0);
}

TEST_P(StateSpace, InChunksIsTheRecurrenceWhereverTheGridFalls) {
    for (const Shape& shape : {odd, narrow})
        for (const std::size_t rows : {1u, 2u, 3u, 59u, 63u, 64u, 65u, 130u, 200u})
            for (const uint committed : {0u, 5u, 63u, 64u})
                expect_chain(GetParam(), Form::chunks, Rows::random(shape, rows, 1), committed);
    expect_chain(GetParam(), Form::chunks, Rows::random(grouped, 200, 1), 5);
    expect_chain(GetParam(), Form::chunks, Rows::random(published, 70, 1), 63);
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
    expect_cuts_on_the_grid_change_nothing<Rows>(GetParam(), grouped);
}

TEST_P(StateSpace, RowByRowCutAnywhereIsTheSameToTheBit) {
    expect_cuts_anywhere_change_nothing<Rows>(GetParam(), published);
}

TEST_P(StateSpace, OverTreesFollowsTheAncestorsAndLeavesTheState) {
    for (const Shape& shape : {odd, grouped, published})
        expect_trees_follow_ancestors<Rows>(GetParam(), shape);
}

TEST_P(StateSpace, GivesARowTheBitsItHasAloneInAChain) {
    for (const Shape& shape : {odd, published}) expect_rows_as_alone<Rows>(GetParam(), shape);
}

TEST_P(StateSpace, SeveralChunkedChainsAreEachAsAlone) {
    expect_chunked_chains_as_alone<Rows>(GetParam(), odd);
}

TEST_P(StateSpace, ACommittedPathIsAsIfItHadBeenDecoded) {
    for (const Shape& shape : {odd, grouped, published})
        expect_committed_paths_as_decoded<Rows>(GetParam(), shape);
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

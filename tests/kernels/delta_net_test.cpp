// The gated delta rule in all its forms against the recurrence in double: row by row, in chunks, over trees,
// and replayed into states.
#include "kernels/delta_net.h"

#include <cmath>

#include "kernels/lab.h"
#include "kernels/trees.h"
#include "support/golden.h"

namespace kapitsa {
namespace {

KERNEL_TESTS(DeltaRule);

struct Shape {
    uint key_heads, value_heads, key_width, value_width;
    std::size_t channels() const { return 2 * key_heads * key_width + value_heads * value_width; }
    std::size_t state() const { return std::size_t(value_heads) * key_width * value_width; }
    std::size_t outputs() const { return std::size_t(value_heads) * value_width; }
};
constexpr Shape odd{3, 3, 7, 5}, tiny_model{2, 6, 32, 32}, published{1, 2, 128, 128}, wide{1, 2, 9, 70};

/// Inputs as DeltaInputs leaves them.
struct Rows {
    Shape shape;
    std::size_t rows;
    std::vector<float> qkv, g, beta;

    /// @param g_least the strongest decay
    static Rows random(const Shape& shape, std::size_t rows, std::uint32_t seed, float g_least = -1) {
        Rows it{shape, rows, random_floats(rows * shape.channels(), seed),
                random_floats(rows * shape.value_heads, seed + 1, g_least / 2),
                random_floats(rows * shape.value_heads, seed + 2, 0.5f)};
        for (float& value : it.g) value = std::fmin(value + g_least / 2, 0.0f);
        for (float& value : it.beta) value += 0.5f;
        for (std::size_t row = 0; row < rows; ++row)
            for (std::size_t head = 0; head < 2 * shape.key_heads; ++head) {
                float* x = &it.qkv[row * shape.channels() + head * shape.key_width];
                double squares = 1e-6;
                for (std::size_t i = 0; i < shape.key_width; ++i) squares += double(x[i]) * x[i];
                if (head < shape.key_heads) squares *= shape.key_width;
                for (std::size_t i = 0; i < shape.key_width; ++i) x[i] = float(x[i] / std::sqrt(squares));
            }
        return it;
    }

    Rows picked(const std::vector<uint>& list) const {
        return {shape, list.size(), picked_rows(qkv, list, shape.channels()),
                picked_rows(g, list, shape.value_heads), picked_rows(beta, list, shape.value_heads)};
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
    for (std::size_t head = 0; head < s.value_heads; ++head) {
        const float* q = &in.qkv[row * s.channels() + head / (s.value_heads / s.key_heads) * s.key_width];
        const float* k = q + s.key_heads * s.key_width;
        const float* v = &in.qkv[row * s.channels() + 2 * s.key_heads * s.key_width + head * s.value_width];
        const double decay = std::exp(double(in.g[row * s.value_heads + head]));
        const double beta = in.beta[row * s.value_heads + head];
        double* state = &states[head * s.key_width * s.value_width];
        for (std::size_t c = 0; c < s.value_width; ++c) {
            double predicted = 0, out = 0;
            for (std::size_t i = 0; i < s.key_width; ++i) {
                state[i * s.value_width + c] *= decay;
                predicted += k[i] * state[i * s.value_width + c];
            }
            for (std::size_t i = 0; i < s.key_width; ++i) {
                state[i * s.value_width + c] += k[i] * (beta * (v[c] - predicted));
                out += q[i] * state[i * s.value_width + c];
            }
            o.push_back(out);
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
    const In<float> qkv = lab.give(in.qkv), g = lab.give(in.g), beta = lab.give(in.beta);
    const In<SegmentRows> given = lab.give(segments);
    uint longest = 0;
    for (const SegmentRows& segment : segments) longest = std::max(longest, segment.rows);
    if (form == Form::rows)
        lab.run(delta_rows_f32, {qkv, g, beta, lab.give(parents), given, moved, o, uint(segments.size()),
                                 s.key_heads, s.value_heads, s.key_width, s.value_width, longest});
    else
        lab.run(delta_chunks_f32, {qkv, g, beta, given, moved, o, uint(segments.size()), s.key_heads,
                                   s.value_heads, s.key_width, s.value_width});
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
    SCOPED_TRACE(std::to_string(in.rows) + " rows of width " + std::to_string(in.shape.key_width) +
                 " after " + std::to_string(committed));
    const auto start = random_floats(in.shape.state(), 99);
    auto state = doubles(start);
    const auto o = obvious_chain(in, state);
    const Outcome got = run_chain(place, form, in, start, committed);
    EXPECT_LT(worst_relative(got.o, o), limit);
    EXPECT_LT(largest_error(got.states, state), limit);
}

TEST_P(DeltaRule, RowByRowIsTheRecurrence) {
    for (const Shape& shape : {odd, tiny_model, wide})
        for (const std::size_t rows : {1u, 2u, 7u, 63u, 64u, 65u, 200u})
            expect_chain(GetParam(), Form::rows, Rows::random(shape, rows, 1), 0, 3e-6);
    expect_chain(GetParam(), Form::rows, Rows::random(published, 70, 1), 0, 3e-6);
}

TEST_P(DeltaRule, InChunksIsTheRecurrenceWhereverTheGridFalls) {
    for (const Shape& shape : {odd, wide})
        for (const std::size_t rows : {1u, 2u, 3u, 59u, 63u, 64u, 65u, 130u, 200u})
            for (const uint committed : {0u, 5u, 63u, 64u})
                expect_chain(GetParam(), Form::chunks, Rows::random(shape, rows, 1), committed, 3e-6);
    expect_chain(GetParam(), Form::chunks, Rows::random(tiny_model, 200, 1), 5, 3e-6);
    expect_chain(GetParam(), Form::chunks, Rows::random(published, 70, 1), 63, 3e-6);
}

TEST_P(DeltaRule, HoldsWithStrongDecayAndWithNone) {
    for (const Form form : {Form::rows, Form::chunks}) {
        for (const float g_least : {0.0f, -20.0f, -300.0f})
            expect_chain(GetParam(), form, Rows::random(odd, 130, 4, g_least), 5, 1e-5);
        Rows mixed = Rows::random(odd, 130, 4, 0);  // each head: nothing, then all, then nothing
        for (std::size_t i = 0; i < mixed.g.size(); i += 7) mixed.g[i] = -300;
        expect_chain(GetParam(), form, mixed, 5, 1e-5);
        Rows one_key = Rows::random(odd, 130, 4, 0);  // the same key in every row, taken over whole
        for (std::size_t row = 1; row < one_key.rows; ++row)
            std::copy_n(one_key.qkv.begin(), 2 * odd.key_heads * odd.key_width,
                        one_key.qkv.begin() + std::ptrdiff_t(row * odd.channels()));
        for (float& beta : one_key.beta) beta = 1;
        expect_chain(GetParam(), form, one_key, 5, 1e-5);
    }
}

TEST_P(DeltaRule, InChunksCutOnTheGridIsTheSameToTheBit) {
    const Rows all = Rows::random(tiny_model, 200, 3);
    const auto start = random_floats(tiny_model.state(), 9);
    const Outcome whole = run_chain(GetParam(), Form::chunks, all, start, 5);
    for (const uint first : {59u, 123u}) {  // 5 + 59 = 64, 5 + 123 = 128
        const Outcome a = run_chain(GetParam(), Form::chunks, all.part(0, first), start, 5);
        const Outcome b =
            run_chain(GetParam(), Form::chunks, all.part(first, all.rows - first), a.states, 5 + first);
        EXPECT_EQ(bits(joined(a.o, b.o)), bits(whole.o)) << first;
        EXPECT_EQ(bits(b.states), bits(whole.states)) << first;
    }
}

TEST_P(DeltaRule, RowByRowCutAnywhereIsTheSameToTheBit) {
    const Rows all = Rows::random(wide, 20, 3);
    const auto start = random_floats(wide.state(), 9);
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

TEST_P(DeltaRule, OverTreesFollowsTheAncestorsAndLeavesTheState) {
    for (const Shape& shape : {odd, tiny_model, wide}) {
        const MixedStep step(shape);
        const Outcome got = run(GetParam(), Form::rows, step.in, step.segments, step.parents, step.states);
        for (std::size_t row = 0; row < step.parents.size(); ++row) {
            const Rows path = step.in.picked(path_to(step.parents, row));
            auto state = doubles(step.state_before(step.segment_of(row).sequence));
            const auto o = obvious_chain(path, state);
            EXPECT_LT(worst_relative(row_of(got.o, row, shape.outputs()),
                                     row_of(o, path.rows - 1, shape.outputs())),
                      3e-6)
                << row;
        }
        for (const SegmentRows& segment : step.segments) {
            const auto before = step.state_before(segment.sequence);
            const auto after = row_of(got.states, segment.sequence, shape.state());
            auto state = doubles(before);
            obvious_chain(step.in.part(segment.first_row, segment.rows), state);
            if (segment.commit)
                EXPECT_LT(largest_error(after, state), 3e-6);
            else
                EXPECT_EQ(bits(after), bits(before));
        }
    }
}

TEST_P(DeltaRule, GivesARowTheBitsItHasAloneInAChain) {
    for (const Shape& shape : {odd, wide}) {
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

TEST_P(DeltaRule, SeveralChunkedChainsAreEachAsAlone) {
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

TEST_P(DeltaRule, ACommittedPathIsAsIfItHadBeenDecoded) {
    for (const Shape& shape : {odd, tiny_model, wide}) {
        const Rows in = Rows::random(shape, 16, 5);
        const auto states = random_floats(4 * shape.state(), 6);
        const std::vector<uint> list{0, 1, 4, 6, 7, 8, 9, 10, 11, 14};
        const std::vector<CommitPath> paths{{3, 0, 4}, {1, 4, 6}, {0, 2, 0}};  // of sequence 2: nothing
        Lab lab(GetParam());
        const Out<float> moved = lab.room(states);
        lab.run(delta_commit_f32,
                {lab.give(in.qkv), lab.give(in.g), lab.give(in.beta), lab.give(list), lab.give(paths), moved,
                 3, shape.key_heads, shape.value_heads, shape.key_width, shape.value_width});
        const auto got = lab.read(moved, states.size());
        EXPECT_EQ(bits(row_of(got, 0, shape.state())), bits(row_of(states, 0, shape.state())));
        EXPECT_EQ(bits(row_of(got, 2, shape.state())), bits(row_of(states, 2, shape.state())));
        for (const CommitPath& path : {paths[0], paths[1]}) {
            const Rows mine = in.picked({list.begin() + path.first, list.begin() + path.first + path.rows});
            const auto before = row_of(states, path.sequence, shape.state()),
                       after = row_of(got, path.sequence, shape.state());
            auto state = doubles(before);
            obvious_chain(mine, state);
            EXPECT_LT(largest_error(after, state), 3e-6);
            EXPECT_EQ(bits(after), bits(run_chain(GetParam(), Form::rows, mine, before).states));
        }
    }
}

/// What DeltaInputs makes of raw rows.
Rows prepare(const Place& place, const Shape& s, const std::vector<float>& qkv, const std::vector<float>& a,
             const std::vector<float>& b, const std::vector<float>& rate, const std::vector<float>& dt_bias) {
    const std::size_t rows = qkv.size() / s.channels(), gates = rows * s.value_heads;
    Lab lab(place);
    const Out<float> made = lab.room(qkv), g = lab.room(gates), beta = lab.room(gates);
    lab.run(delta_inputs_f32, {made, lab.give(a), lab.give(b), lab.give(rate), lab.give(dt_bias), g, beta,
                               uint(rows), s.key_heads, s.value_heads, s.key_width, s.value_width});
    return {s, rows, lab.read(made, qkv.size()), lab.read(g, gates), lab.read(beta, gates)};
}

TEST_P(DeltaRule, InputsBecomeUnitVectorsAndGates) {
    for (const Shape& s : {odd, tiny_model, published, wide}) {
        constexpr std::size_t rows = 5;
        auto qkv = random_floats(rows * s.channels(), 1, 3);
        std::fill_n(qkv.begin(), s.key_width, 0.0f);  // a query of nothing stays nothing
        auto a = random_floats(rows * s.value_heads, 2, 40), b = random_floats(rows * s.value_heads, 3, 40);
        a[0] = -120, a[1] = 100, b[0] = -120, b[1] = 100;
        const auto rate = random_floats(s.value_heads, 4, 8), dt_bias = random_floats(s.value_heads, 5);
        const Rows got = prepare(GetParam(), s, qkv, a, b, rate, dt_bias);

        std::vector<double> want, g, beta;
        for (std::size_t row = 0; row < rows; ++row)
            for (std::size_t i = 0; i < s.channels(); ++i) {
                const std::size_t head = i / s.key_width;
                double squares = 1e-6;
                for (std::size_t j = 0; j < s.key_width && head < 2 * s.key_heads; ++j)
                    squares += std::pow(double(qkv[row * s.channels() + head * s.key_width + j]), 2);
                const double x = qkv[row * s.channels() + i];
                if (head < s.key_heads) squares *= s.key_width;
                want.push_back(head < 2 * s.key_heads ? x / std::sqrt(squares) : x);
            }
        for (std::size_t i = 0; i < a.size(); ++i) {
            beta.push_back(1 / (1 + std::exp(-double(b[i]))));
            g.push_back(-double(rate[i % s.value_heads]) *
                        std::log1p(std::exp(double(a[i]) + dt_bias[i % s.value_heads])));
        }
        EXPECT_LT(largest_error(got.qkv, want), 1e-6);
        EXPECT_LT(worst_relative(got.g, g), 1e-6);
        EXPECT_LT(largest_error(got.beta, beta), 1e-6);
    }
}

TEST_P(DeltaRule, GivesTheGoldenOutputsAndState) {
    const Golden golden("qwen3_5-dense/gdn_unit.safetensors");
    const auto q = golden.floats("q").values, k = golden.floats("k").values, v = golden.floats("v").values;
    auto rate = golden.floats("A_log").values;
    for (float& value : rate) value = std::exp(value);
    std::vector<float> qkv;
    for (std::size_t row = 0; row < 70; ++row)
        for (const auto& part : {row_of(q, row, 128), row_of(k, row, 128), row_of(v, row, 256)})
            qkv.insert(qkv.end(), part.begin(), part.end());
    const Rows in = prepare(GetParam(), published, qkv, golden.floats("a").values, golden.floats("b").values,
                            rate, golden.floats("dt_bias").values);
    EXPECT_LT(largest_error(in.g, golden.doubles("g").values), 1e-6);
    EXPECT_LT(largest_error(in.beta, golden.doubles("beta").values), 2e-7);
    for (const Form form : {Form::rows, Form::chunks})
        for (const uint committed : {0u, 5u, 63u}) {
            const Outcome got = run_chain(GetParam(), form, in, golden.floats("state_in").values, committed);
            EXPECT_LT(largest_error(got.o, golden.doubles("out").values), 3e-7);
            EXPECT_LT(largest_error(got.states, golden.doubles("state_out").values), 2e-6);
        }
}

}  // namespace
}  // namespace kapitsa

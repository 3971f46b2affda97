// The gated delta rule in all its forms against the recurrence in double: row by row, in chunks, over trees,
// and replayed into states.
#include "kernels/delta_net.h"

#include <algorithm>
#include <cmath>

#include "kernels/recurrence.h"
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
    static constexpr double limit = 3e-6;

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

    /// Moves all heads' states on by one row, and appends its outputs.
    void obvious_row(std::size_t row, std::vector<double>& states, std::vector<double>& o) const {
        const Shape& s = shape;
        for (std::size_t head = 0; head < s.value_heads; ++head) {
            const float* q = &qkv[row * s.channels() + head / (s.value_heads / s.key_heads) * s.key_width];
            const float* k = q + s.key_heads * s.key_width;
            const float* v = &qkv[row * s.channels() + 2 * s.key_heads * s.key_width + head * s.value_width];
            const double decay = std::exp(double(g[row * s.value_heads + head]));
            const double gain = beta[row * s.value_heads + head];
            double* state = &states[head * s.key_width * s.value_width];
            for (std::size_t c = 0; c < s.value_width; ++c) {
                double predicted = 0, out = 0;
                for (std::size_t i = 0; i < s.key_width; ++i) {
                    state[i * s.value_width + c] *= decay;
                    predicted += k[i] * state[i * s.value_width + c];
                }
                for (std::size_t i = 0; i < s.key_width; ++i) {
                    state[i * s.value_width + c] += k[i] * (gain * (v[c] - predicted));
                    out += q[i] * state[i * s.value_width + c];
                }
                o.push_back(out);
            }
        }
    }

    using Segments = std::vector<SegmentRows>;
    void launch_rows(Lab& lab, const std::vector<int>& parents, const Segments& segments, Out<float> states,
                     Out<float> o) const {
        uint longest = 0;
        for (const SegmentRows& segment : segments) longest = std::max(longest, segment.rows);
        lab.run(delta_rows_f32, {lab.give(qkv), lab.give(g), lab.give(beta), lab.give(parents),
                                 lab.give(segments), states, o, uint(segments.size()), shape.key_heads,
                                 shape.value_heads, shape.key_width, shape.value_width, longest});
    }
    void launch_chunks(Lab& lab, const Segments& segments, Out<float> states, Out<float> o) const {
        lab.run(delta_chunks_f32, {lab.give(qkv), lab.give(g), lab.give(beta), lab.give(segments), states, o,
                                   uint(segments.size()), shape.key_heads, shape.value_heads, shape.key_width,
                                   shape.value_width});
    }
    void launch_commit(Lab& lab, const std::vector<uint>& list, const std::vector<CommitPath>& paths,
                       Out<float> states) const {
        lab.run(delta_commit_f32,
                {lab.give(qkv), lab.give(g), lab.give(beta), lab.give(list), lab.give(paths), states,
                 uint(paths.size()), shape.key_heads, shape.value_heads, shape.key_width, shape.value_width});
    }
};

TEST_P(DeltaRule, RowByRowIsTheRecurrence) {
    for (const Shape& shape : {odd, tiny_model, wide})
        for (const std::size_t rows : {1u, 2u, 7u, 63u, 64u, 65u, 200u})
            expect_chain(GetParam(), Form::rows, Rows::random(shape, rows, 1), 0);
    expect_chain(GetParam(), Form::rows, Rows::random(published, 70, 1), 0);
}

TEST_P(DeltaRule, InChunksIsTheRecurrenceWhereverTheGridFalls) {
    for (const Shape& shape : {odd, wide})
        for (const std::size_t rows : {1u, 2u, 3u, 59u, 63u, 64u, 65u, 130u, 200u})
            for (const uint committed : {0u, 5u, 63u, 64u})
                expect_chain(GetParam(), Form::chunks, Rows::random(shape, rows, 1), committed);
    expect_chain(GetParam(), Form::chunks, Rows::random(tiny_model, 200, 1), 5);
    expect_chain(GetParam(), Form::chunks, Rows::random(published, 70, 1), 63);
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
    expect_cuts_on_the_grid_change_nothing<Rows>(GetParam(), tiny_model);
}

TEST_P(DeltaRule, RowByRowCutAnywhereIsTheSameToTheBit) {
    expect_cuts_anywhere_change_nothing<Rows>(GetParam(), wide);
}

TEST_P(DeltaRule, OverTreesFollowsTheAncestorsAndLeavesTheState) {
    for (const Shape& shape : {odd, tiny_model, wide}) expect_trees_follow_ancestors<Rows>(GetParam(), shape);
}

TEST_P(DeltaRule, GivesARowTheBitsItHasAloneInAChain) {
    for (const Shape& shape : {odd, wide}) expect_rows_as_alone<Rows>(GetParam(), shape);
}

TEST_P(DeltaRule, SeveralChunkedChainsAreEachAsAlone) {
    expect_chunked_chains_as_alone<Rows>(GetParam(), odd);
}

TEST_P(DeltaRule, ACommittedPathIsAsIfItHadBeenDecoded) {
    for (const Shape& shape : {odd, tiny_model, wide})
        expect_committed_paths_as_decoded<Rows>(GetParam(), shape);
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

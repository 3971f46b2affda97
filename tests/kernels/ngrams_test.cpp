// Tables of n-grams: rows picked by hashes against the published rows and against arithmetic written from the
// rule, their look-up in parts, the gate, and the dilated convolution.
#include "kernels/ngrams.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "kernels/affine.h"
#include "kernels/lab.h"
#include "kernels/trees.h"
#include "support/golden.h"

namespace kapitsa {
namespace {

KERNEL_TESTS(Ngrams);

struct Hash {
    std::vector<ulong> multipliers, sizes, offsets;  // [order], [heads], [heads]
    int reset;
    std::size_t order() const { return multipliers.size(); }
    std::size_t heads() const { return sizes.size(); }
};

Hash made_up(std::size_t order, std::size_t of_each) {
    Hash hash{{}, {}, {}, 5};
    for (std::size_t i = 0; i < order; ++i) hash.multipliers.push_back(25912437101140037u + 2 * i * i);
    for (std::size_t head = 0; head < (order - 1) * of_each; ++head) {
        hash.sizes.push_back(97 + 6 * head);
        hash.offsets.push_back(1000 * head);
    }
    return hash;
}

struct Picks {
    std::vector<float> marks;
    std::vector<uint> rows;  // [rows, heads]
};

Picks pick(const Place& place, const Hash& hash, const std::vector<int>& tokens,
           const std::vector<int>& parents, const std::vector<uint>& sequences,
           const std::vector<float>& tails, std::uint32_t threads = 1) {
    const std::size_t rows = tokens.size(), picks = rows * hash.heads();
    Lab lab(place, threads);
    const Out<float> marks = lab.room(rows), picked = lab.room(picks);
    lab.run(ngram_rows, {.tokens = lab.give(tokens),
                         .parents = lab.give(parents),
                         .sequences = lab.give(sequences),
                         .tails = lab.give(tails),
                         .multipliers = lab.give(hash.multipliers),
                         .sizes = lab.give(hash.sizes),
                         .offsets = lab.give(hash.offsets),
                         .marks = marks,
                         .picked = reinterpret_cast<Out<uint>>(picked),
                         .rows = uint(rows),
                         .order = uint(hash.order()),
                         .heads = uint(hash.heads()),
                         .reset = hash.reset});
    return {lab.read(marks, rows), bits(lab.read(picked, picks))};
}

/// The rule, from all tokens that stand before the last one and itself.
std::vector<uint> obvious_rows(const Hash& hash, std::vector<int> history) {
    std::vector<ulong> context{ulong(history.back())};
    bool cut = false;
    for (std::size_t back = 1; back < hash.order(); ++back) {
        cut = cut || back >= history.size() || history[history.size() - 1 - back] == hash.reset;
        context.push_back(ulong(cut ? hash.reset : history[history.size() - 1 - back]));
    }
    std::vector<uint> rows;
    const std::size_t of_each = hash.heads() / (hash.order() - 1);
    for (std::size_t head = 0; head < hash.heads(); ++head) {
        ulong mixed = 0;
        for (std::size_t i = 0; i < head / of_each + 2; ++i) mixed ^= context[i] * hash.multipliers[i];
        rows.push_back(uint(mixed % hash.sizes[head] + hash.offsets[head]));
    }
    return rows;
}

/// Marks of the last tokens of a history, oldest first.
std::vector<float> tail_of(const std::vector<int>& history, std::size_t kept) {
    std::vector<float> tail(kept, 0);
    for (std::size_t i = 0; i < std::min(kept, history.size()); ++i)
        tail[kept - 1 - i] = float(history[history.size() - 1 - i]) + 1;
    return tail;
}

TEST_P(Ngrams, PickThePublishedRows) {
    const Json golden = read_golden_json("qwen4_exp/hash_vectors.json"), &module = golden["ple_index_0"];
    const Hash hash{module["multipliers"].get<std::vector<ulong>>(),
                    module["sizes"].get<std::vector<ulong>>(), module["offsets"].get<std::vector<ulong>>(),
                    golden["eos"].get<int>()};
    const auto expect = [&](const Json& sequence, const std::vector<int>& before) {
        const auto ids = sequence["ids"].get<std::vector<int>>();
        std::vector<uint> want;
        for (const auto& row : sequence["rows"].get<std::vector<std::vector<uint>>>())
            want.insert(want.end(), row.begin(), row.end());
        ASSERT_EQ(want.size(), ids.size() * hash.heads());
        const Picks got = pick(GetParam(), hash, ids, chain(int(ids.size())),
                               std::vector<uint>(ids.size(), 0), tail_of(before, 2));
        EXPECT_EQ(got.rows, want);
    };
    ASSERT_GE(golden["sequences"].size(), 7u);
    for (const auto& [name, sequence] : golden["sequences"].items()) {
        SCOPED_TRACE(name);
        expect(sequence, {});
    }
    expect(golden["continuation"], golden["continuation"]["before"].get<std::vector<int>>());
}

TEST_P(Ngrams, OfTreesAndContinuedSequencesFollowEachRowsOwnPath) {
    for (const std::size_t order : {2u, 3u, 5u})
        for (const std::size_t of_each : {1u, 3u, 8u}) {
            const Hash hash = made_up(order, of_each);
            auto parents = joined(joined(chain(9), tree(9)), {no_row});
            std::vector<uint> sequences(9, 2);
            sequences.insert(sequences.end(), 16, 0);
            sequences.push_back(1);
            std::vector<int> tokens;  // few values, so that resets stand everywhere
            for (const uint word : random_words(parents.size(), 3)) tokens.push_back(int(word % 7));
            tokens[0] = (1 << 24) - 2;  // the largest that a mark holds
            const std::vector<std::vector<int>> before{{3, 1, 4, 1, 6}, {}, {2, 5}};
            std::vector<float> tails;
            for (const auto& history : before) tails = joined(tails, tail_of(history, order - 1));
            std::vector<uint> want;
            for (std::size_t row = 0; row < tokens.size(); ++row)
                want =
                    joined(want, obvious_rows(hash, joined(before[sequences[row]],
                                                           picked_rows(tokens, path_to(parents, row), 1))));
            for (const std::uint32_t threads : {1u, 3u}) {
                const Picks got = pick(GetParam(), hash, tokens, parents, sequences, tails, threads);
                EXPECT_EQ(got.rows, want) << "orders to " << order << ", " << of_each << " heads of each";
                for (std::size_t row = 0; row < tokens.size(); ++row)
                    EXPECT_EQ(got.marks[row], float(tokens[row] + 1));
            }
        }
}

Kernel<Lookup<float>> dense_kernel(float) { return lookup_f32; }
Kernel<Lookup<half>> dense_kernel(half) { return lookup_f16; }
Kernel<Lookup<bfloat>> dense_kernel(bfloat) { return lookup_bf16; }
Kernel<LookupAffine<float>> affine_kernel(float) { return lookup_affine_f32; }
Kernel<LookupAffine<half>> affine_kernel(half) { return lookup_affine_f16; }
Kernel<LookupAffine<bfloat>> affine_kernel(bfloat) { return lookup_affine_bf16; }

const std::vector<uint> picked{14, 0, 5, 4, 9, 9, 10, 2, 14};
constexpr uint part_rows = 5;

TEST_P(Ngrams, LookUpTheRowsOfPartsOneBehindTheOther) {
    for_each_scale([&]<typename T>(T) {
        for (const std::size_t columns : {1u, 8u, 15u, 33u, 160u}) {
            Lab lab(GetParam(), 2);
            std::vector<T> whole;
            std::vector<typename MultiplyDense<T>::Part> parts(3);
            for (uint part = 0; part < 3; ++part) {
                const auto values = stored_as<T>(random_floats(part_rows * columns, part + 1));
                parts[part].weight = lab.give(values);
                whole = joined(whole, values);
            }
            std::vector<float> want;
            for (const T value : picked_rows(whole, picked, columns)) want.push_back(float(number(value)));
            const Out<float> y = lab.room(want.size());
            lab.run(dense_kernel(T()),
                    {lab.give(parts), lab.give(picked), y, uint(picked.size()), uint(columns), part_rows});
            EXPECT_EQ(bits(lab.read(y, want.size())), bits(want)) << columns;
        }
    });
}

TEST_P(Ngrams, LookUpAffineRowsAsTheValuesTheyStandFor) {
    for_each_scale([&]<typename S>(S) {
        for (const uint width : {2u, 3u, 4u, 5u, 6u, 8u})
            for (const std::size_t columns : {32u, 96u, 160u}) {
                Lab lab(GetParam(), 2);
                std::vector<double> whole;
                std::vector<typename MultiplyAffine<S>::Part> parts(3);
                for (uint part = 0; part < 3; ++part) {
                    const auto matrix = AffineMatrix<S>::random(part_rows, columns, 32, width, 7 * part);
                    parts[part].codes = lab.give(matrix.codes);
                    parts[part].scales = lab.give(matrix.scales);
                    parts[part].biases = lab.give(matrix.biases);
                    whole = joined(whole, matrix.values());
                }
                const auto want = picked_rows(whole, picked, columns);
                const Out<float> y = lab.room(want.size());
                lab.run(affine_kernel(S()), {lab.give(parts), lab.give(picked), y, uint(picked.size()),
                                             uint(columns), part_rows, 32, width});
                EXPECT_LT(worst_relative(lab.read(y, want.size()), want), 3e-7) << width << " bits";
            }
    });
}

TEST_P(Ngrams, AGateOpensAsKeyAndStreamMatch) {
    for (const std::size_t streams : {1u, 3u, 4u})
        for (const std::size_t width : {1u, 7u, 16u, 33u, 200u}) {
            const std::size_t rows = 5, wide = streams * width;
            auto key = random_floats(rows * wide, 1, 4);
            for (std::size_t i = 0; i < width; ++i) key[i] = 0;  // no match at all
            const auto query = random_floats(rows * wide, 2, 4), value = random_floats(rows * width, 3);
            std::vector<double> want;
            for (std::size_t at = 0; at < rows * wide; ++at) {
                double match = 0;
                for (std::size_t i = at / width * width; i < (at / width + 1) * width; ++i)
                    match += double(key[i]) * query[i];
                match /= std::sqrt(double(width));
                const double root = std::sqrt(std::fmax(std::fabs(match), 1e-6));
                const double opened = match == 0 ? 0 : std::copysign(root, match);
                want.push_back(value[at / wide * width + at % width] / (1 + std::exp(-opened)));
            }
            Lab lab(GetParam()), threads(GetParam(), 3);
            const auto run = [&](Lab& in) {
                const Out<float> y = in.room(rows * wide);
                in.run(gate_by_match_f32, {in.give(key), in.give(query), in.give(value), y, uint(rows),
                                           uint(streams), uint(width)});
                return in.read(y, rows * wide);
            };
            const auto got = run(lab);
            EXPECT_LT(largest_error(got, want), 2e-6) << streams << " streams of " << width;
            EXPECT_EQ(bits(run(threads)), bits(got));
            const Out<float> y = lab.room(wide);
            lab.run(gate_by_match_f32, {lab.give(row_of(key, 3, wide)), lab.give(row_of(query, 3, wide)),
                                        lab.give(row_of(value, 3, width)), y, 1, uint(streams), uint(width)});
            EXPECT_EQ(bits(lab.read(y, wide)), bits(row_of(got, 3, wide)));
        }
}

/// A chain, a tree and a single row of three sequences with tails.
struct ConvCase {
    std::size_t channels, taps, dilation;
    std::vector<int> parents = joined(joined(chain(20), tree(20)), {no_row});
    std::vector<uint> sequences = joined(joined(std::vector<uint>(20, 2), std::vector<uint>(16, 0)), {1u});
    std::vector<float> u = random_floats(parents.size() * channels, 1, 2),
                       weight = random_floats(taps * channels, 2, 2),
                       direct = random_floats(parents.size() * channels, 3),
                       before = random_floats(parents.size() * channels, 4),
                       tails = random_floats(3 * kept() * channels, 5, 2);

    std::size_t kept() const { return (taps - 1) * dilation; }

    std::vector<float> run(const Place& place, std::uint32_t threads = 1) const {
        Lab lab(place, threads);
        const Out<float> y = lab.room(before);
        lab.run(dilated_conv_f32,
                {lab.give(u), lab.give(weight), lab.give(direct), lab.give(tails), lab.give(parents),
                 lab.give(sequences), y, uint(parents.size()), uint(channels), uint(taps), uint(dilation)});
        return lab.read(y, u.size());
    }

    std::vector<double> obvious() const {
        std::vector<double> y;
        for (std::size_t row = 0; row < parents.size(); ++row) {
            const auto seen = joined(row_of(tails, sequences[row], kept() * channels),
                                     picked_rows(u, path_to(parents, row), channels));
            const float* last = seen.data() + seen.size() - (kept() + 1) * channels;
            for (std::size_t c = 0; c < channels; ++c) {
                double total = 0;
                for (std::size_t tap = 0; tap < taps; ++tap)
                    total += double(weight[tap * channels + c]) * last[tap * dilation * channels + c];
                const std::size_t at = row * channels + c;
                y.push_back(double(before[at]) + direct[at] + total / (1 + std::exp(-total)));
            }
        }
        return y;
    }
};

TEST_P(Ngrams, ADilatedConvolutionSeesAncestorsAndThenTheTail) {
    for (const std::size_t taps : {2u, 3u, 4u, 8u})
        for (const std::size_t dilation : {1u, 2u, 3u, 5u})
            for (const std::size_t channels : {1u, 7u, 16u, 100u, 257u}) {
                const ConvCase it{channels, taps, dilation};
                EXPECT_LT(largest_error(it.run(GetParam()), it.obvious()), 1e-5)
                    << taps << " taps, " << dilation << " apart, " << channels << " channels";
            }
}

TEST_P(Ngrams, ADilatedConvolutionGivesARowOfATreeTheBitsItHasInAChain) {
    const ConvCase it{33, 4, 3};
    const auto got = it.run(GetParam());
    EXPECT_EQ(bits(it.run(GetParam(), 3)), bits(got));
    for (std::size_t row = 0; row < it.parents.size(); ++row) {
        const auto path = path_to(it.parents, row);
        ConvCase alone = it;
        alone.parents = chain(int(path.size()));
        alone.sequences.assign(path.size(), it.sequences[row]);
        for (auto* values : {&alone.u, &alone.direct, &alone.before})
            *values = picked_rows(*values, path, it.channels);
        EXPECT_EQ(bits(row_of(alone.run(GetParam()), path.size() - 1, it.channels)),
                  bits(row_of(got, row, it.channels)))
            << row;
    }
}

}  // namespace
}  // namespace kapitsa

// The short convolution over chains and trees, and the tails that sequences leave behind.
#include "kernels/short_conv.h"

#include <cmath>

#include "kernels/lab.h"
#include "kernels/trees.h"

namespace kapitsa {
namespace {

KERNEL_TESTS(Convolution);

/// A step's rows over sequences with tails.
struct ConvCase {
    std::size_t channels, taps, sequences;
    std::vector<int> parents;       // [rows]
    std::vector<uint> of_sequence;  // [rows]
    std::vector<float> u, weight, bias, tails;

    ConvCase(std::size_t of_channels, std::size_t of_taps, std::vector<int> all_parents,
             std::vector<uint> all_sequences)
        : channels(of_channels),
          taps(of_taps),
          sequences(3),
          parents(std::move(all_parents)),
          of_sequence(std::move(all_sequences)),
          u(random_floats(parents.size() * channels, 1, 2)),
          weight(random_floats(taps * channels, 2, 2)),
          bias(random_floats(channels, 4, 2)),
          tails(random_floats(sequences * (taps - 1) * channels, 3, 2)) {}

    std::vector<float> run(const Place& place, std::uint32_t threads = 1) const {
        Lab lab(place, threads);
        const Out<float> y = lab.room(u.size());
        lab.run(short_conv_f32, {lab.give(u), lab.give(weight), bias.empty() ? nullptr : lab.give(bias),
                                 lab.give(tails), lab.give(parents), lab.give(of_sequence), y,
                                 uint(parents.size()), uint(channels), uint(taps)});
        return lab.read(y, u.size());
    }

    /// The tail and the row's path, then the last `taps` of them.
    std::vector<double> obvious() const {
        const std::size_t kept = taps - 1;
        std::vector<double> y;
        for (std::size_t row = 0; row < parents.size(); ++row) {
            auto seen = row_of(tails, of_sequence[row], kept * channels);
            seen = joined(seen, picked_rows(u, path_to(parents, row), channels));
            const float* last = seen.data() + seen.size() - taps * channels;
            for (std::size_t c = 0; c < channels; ++c) {
                double total = bias.empty() ? 0 : bias[c];
                for (std::size_t tap = 0; tap < taps; ++tap)
                    total += double(weight[tap * channels + c]) * last[tap * channels + c];
                y.push_back(total / (1 + std::exp(-total)));
            }
        }
        return y;
    }
};

/// A chain, a tree and a single row, each of a sequence of its own.
ConvCase mixed_case(std::size_t channels, std::size_t taps) {
    auto parents = joined(joined(chain(9), tree(9)), {no_row});
    std::vector<uint> sequences(9, 2);
    sequences.insert(sequences.end(), 16, 0);
    sequences.push_back(1);
    return {channels, taps, std::move(parents), std::move(sequences)};
}

TEST_P(Convolution, SeesAncestorsAndThenTheTail) {
    for (const std::size_t taps : {1u, 2u, 3u, 4u, 5u, 8u})
        for (const std::size_t channels : {1u, 7u, 100u, 511u, 512u, 513u, 1100u}) {
            ConvCase it = mixed_case(channels, taps);
            EXPECT_LT(largest_error(it.run(GetParam()), it.obvious()), 1e-5) << taps << " taps, " << channels;
            it.bias.clear();
            EXPECT_LT(largest_error(it.run(GetParam()), it.obvious()), 1e-5) << taps << " taps, " << channels;
        }
}

TEST_P(Convolution, GivesARowOfATreeTheBitsItHasInAChain) {
    const ConvCase it = mixed_case(100, 4);
    const auto got = it.run(GetParam());
    EXPECT_EQ(bits(it.run(GetParam(), 3)), bits(got));
    for (std::size_t row = 0; row < it.parents.size(); ++row) {
        const auto path = path_to(it.parents, row);
        ConvCase alone(it.channels, it.taps, chain(int(path.size())),
                       std::vector<uint>(path.size(), it.of_sequence[row]));
        alone.u = picked_rows(it.u, path, it.channels);
        EXPECT_EQ(bits(row_of(alone.run(GetParam()), path.size() - 1, it.channels)),
                  bits(row_of(got, row, it.channels)))
            << row;
    }
}

TEST_P(Convolution, ClosesForVeryNegativeSums) {
    ConvCase it(5, 2, chain(1), {0});
    it.u = {-100, -180, -400, -1e9f, 50};
    it.bias.clear();
    it.weight = {0, 0, 0, 0, 0, 1, 1, 1, 1, 1};
    EXPECT_LT(largest_error(it.run(GetParam()), std::vector<double>{0, 0, 0, 0, 50}), 1e-30);
}

TEST_P(Convolution, CommitKeepsTheLastInputsOfEachPath) {
    for (const std::size_t taps : {1u, 2u, 4u, 6u})
        for (const std::size_t channels : {1u, 33u, 700u})
            for (uint rows = 0; rows <= 5; ++rows) {
                const std::size_t kept = taps - 1;
                const auto u = random_floats(9 * channels, 1), before = random_floats(4 * kept * channels, 2);
                // Two paths in one list, of sequences 3 and 1; rows of a path need not be neighbours.
                const std::vector<uint> list{8, 0, 2, 3, 7, 5, 1, 4, 6};
                const std::vector<CommitPath> paths{{3, 0, rows}, {1, 5, std::min(rows, 4u)}};
                auto want = before;
                for (const CommitPath& path : paths) {
                    const std::vector<uint> mine(list.begin() + path.first,
                                                 list.begin() + path.first + path.rows);
                    const auto seen = joined(row_of(before, path.sequence, kept * channels),
                                             picked_rows(u, mine, channels));
                    std::copy(seen.end() - std::ptrdiff_t(kept * channels), seen.end(),
                              want.begin() + std::ptrdiff_t(path.sequence * kept * channels));
                }
                Lab lab(GetParam());
                const Out<float> tails = lab.room(before);
                lab.run(short_conv_commit_f32,
                        {lab.give(u), lab.give(list), lab.give(paths), tails, 2, uint(channels), uint(taps)});
                EXPECT_EQ(bits(lab.read(tails, before.size())), bits(want))
                    << taps << " taps, " << rows << " rows, " << channels << " channels";
            }
}

TEST_P(Convolution, AfterACommitGoesOnAsIfTheRowsHadBeenInTheStep) {
    const std::size_t channels = 33, taps = 4, rows = 7;
    const ConvCase whole(channels, taps, chain(int(rows)), std::vector<uint>(rows, 1));
    const auto want = whole.run(GetParam());
    for (uint first = 1; first < rows; ++first) {
        Lab lab(GetParam());
        const Out<float> tails = lab.room(whole.tails);
        std::vector<uint> list;
        for (uint row = 0; row < first; ++row) list.push_back(row);
        lab.run(short_conv_commit_f32,
                {lab.give(whole.u), lab.give(list), lab.give(std::vector<CommitPath>{{1, 0, first}}), tails,
                 1, uint(channels), uint(taps)});
        ConvCase rest(channels, taps, chain(int(rows - first)), std::vector<uint>(rows - first, 1));
        rest.u.assign(whole.u.begin() + std::ptrdiff_t(first * channels), whole.u.end());
        rest.tails = lab.read(tails, whole.tails.size());
        const std::vector<float> of_rest(want.begin() + std::ptrdiff_t(first * channels), want.end());
        EXPECT_EQ(bits(rest.run(GetParam())), bits(of_rest)) << first;
    }
}

}  // namespace
}  // namespace kapitsa

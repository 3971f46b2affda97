// The steps around the products of routed experts: choosing, grouping, adding up.
#include "kernels/experts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/lab.h"
#include "support/golden.h"

namespace kapitsa {
namespace {

KERNEL_TESTS(Experts);

// ---- choosing

struct RouteCase {
    std::size_t rows, experts, picks;
    uint groups = 1, groups_kept = 1;
    bool sigmoid = false, normalise = true;
    float epsilon = 0, scale = 1;
    std::vector<float> bias = {}, correction = {};
};

struct Routes {
    std::vector<uint> chosen;    // [rows, picks]
    std::vector<float> weights;  // [rows, picks]
};

std::vector<uint> words(const std::vector<float>& values) { return bits(values); }

Routes route(const Place& place, const RouteCase& of, const std::vector<float>& logits,
             std::uint32_t threads = 1) {
    Lab lab(place, threads);
    const auto choices = of.rows * of.picks;
    const Out<float> chosen = lab.room(choices), weights = lab.room(choices);
    lab.run(route_f32, {.logits = lab.give(logits),
                        .bias = of.bias.empty() ? nullptr : lab.give(of.bias),
                        .correction = of.correction.empty() ? nullptr : lab.give(of.correction),
                        .chosen = reinterpret_cast<Out<uint>>(chosen),
                        .weights = weights,
                        .rows = uint(of.rows),
                        .experts = uint(of.experts),
                        .picks = uint(of.picks),
                        .groups = of.groups,
                        .groups_kept = of.groups_kept,
                        .sigmoid = of.sigmoid,
                        .normalise = of.normalise,
                        .epsilon = of.epsilon,
                        .scale = of.scale});
    return {words(lab.read(chosen, choices)), lab.read(weights, choices)};
}

std::vector<double> scores_of(const RouteCase& of, const float* logits) {
    std::vector<double> scores(of.experts);
    for (std::size_t e = 0; e < of.experts; ++e)
        scores[e] = double(logits[e]) + (of.bias.empty() ? 0.0 : double(of.bias[e]));
    const double most = *std::ranges::max_element(scores);
    for (double& score : scores) score = of.sigmoid ? 1 / (1 + std::exp(-score)) : std::exp(score - most);
    const double total = std::accumulate(scores.begin(), scores.end(), 0.0);
    if (!of.sigmoid)
        for (double& score : scores) score /= total;
    return scores;
}

/// The numbers of the largest, the best first, of equal ones the first.
std::vector<std::size_t> best_of(const std::vector<double>& values, std::size_t count) {
    std::vector<std::size_t> order(values.size());
    std::iota(order.begin(), order.end(), 0u);
    std::ranges::stable_sort(order, [&](auto a, auto b) { return values[a] > values[b]; });
    order.resize(count);
    return order;
}

void expect_routes(const RouteCase& of, const std::vector<float>& logits, const Routes& got) {
    for (std::size_t row = 0; row < of.rows; ++row) {
        const auto scores = scores_of(of, &logits[row * of.experts]);
        auto values = scores;
        for (std::size_t e = 0; e < of.experts; ++e)
            if (!of.correction.empty()) values[e] += of.correction[e];
        const std::size_t members = of.experts / of.groups;
        std::vector<double> sums;
        for (std::size_t g = 0; g < of.groups; ++g) {
            std::vector<double> group(values.begin() + std::ptrdiff_t(g * members),
                                      values.begin() + std::ptrdiff_t((g + 1) * members));
            const auto two = best_of(group, std::min<std::size_t>(2, members));
            sums.push_back(group[two[0]] + (two.size() > 1 ? group[two[1]] : 0.0));
        }
        const auto kept = best_of(sums, of.groups_kept);
        for (std::size_t e = 0; e < of.experts; ++e)
            if (std::ranges::find(kept, e / members) == kept.end())
                values[e] = -std::numeric_limits<double>::infinity();
        const auto best = best_of(values, of.picks);
        double total = of.epsilon;
        for (const auto e : best) total += scores[e];
        for (std::size_t pick = 0; pick < of.picks; ++pick) {
            const std::size_t at = row * of.picks + pick;
            ASSERT_EQ(got.chosen[at], best[pick]) << "row " << row << ", pick " << pick;
            const double want = of.scale * scores[best[pick]] / (of.normalise ? total : 1.0);
            ASSERT_TRUE(std::fabs(got.weights[at] - want) <= 2e-6 * of.scale) << "row " << row;
        }
    }
}

TEST_P(Experts, ARowChoosesTheBestAndWeighsThem) {
    const std::vector<RouteCase> cases{
        {.rows = 1, .experts = 1, .picks = 1},
        {.rows = 5, .experts = 7, .picks = 3},
        {.rows = 3, .experts = 16, .picks = 16},
        {.rows = 4, .experts = 33, .picks = 5, .bias = random_floats(33, 4)},
        {.rows = 9, .experts = 256, .picks = 8},
        {.rows = 2, .experts = 513, .picks = 10, .normalise = false},
        {.rows = 6,
         .experts = 128,
         .picks = 6,
         .sigmoid = true,
         .epsilon = 1e-20f,
         .scale = 2.5f,
         .correction = random_floats(128, 5, 0.3f)},
        {.rows = 6,
         .experts = 24,
         .picks = 4,
         .groups = 8,
         .groups_kept = 3,
         .sigmoid = true,
         .normalise = false,
         .scale = 5,
         .correction = random_floats(24, 6, 0.3f)},
        {.rows = 6, .experts = 12, .picks = 3, .groups = 12, .groups_kept = 4},
        {.rows = 6, .experts = 21, .picks = 2, .groups = 3, .groups_kept = 1, .bias = random_floats(21, 7)},
    };
    for (std::size_t i = 0; i < cases.size(); ++i) {
        SCOPED_TRACE("case " + std::to_string(i));
        const auto logits = random_floats(cases[i].rows * cases[i].experts, std::uint32_t(i), 4);
        expect_routes(cases[i], logits, route(GetParam(), cases[i], logits));
    }
}

TEST_P(Experts, OfEqualOnesTheLowestNumberIsChosen) {
    const Routes all =
        route(GetParam(), {.rows = 1, .experts = 40, .picks = 3}, std::vector<float>(40, 0.5f));
    EXPECT_EQ(all.chosen, (std::vector<uint>{0, 1, 2}));
    std::vector<float> logits(40, -1.0f);
    logits[38] = logits[17] = logits[31] = 2;
    EXPECT_EQ(route(GetParam(), {.rows = 1, .experts = 40, .picks = 2}, logits).chosen,
              (std::vector<uint>{17, 31}));
    EXPECT_EQ(route(GetParam(), {.rows = 1, .experts = 40, .picks = 2, .groups = 4, .groups_kept = 1},
                    std::vector<float>(40, 0.0f))
                  .chosen,
              (std::vector<uint>{0, 1}));
}

TEST_P(Experts, ChoicesAreExpertsEvenWhereLogitsAreNoNumbers) {
    const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
    for (const bool sigmoid : {false, true})
        for (const std::vector<float>& logits :
             {std::vector<float>(8, nan), std::vector<float>(8, -inf), std::vector<float>(8, inf),
              std::vector<float>{nan, 1, nan, 3, -inf, inf, 2, nan}})
            for (const uint groups : {1u, 4u}) {
                auto chosen = route(GetParam(),
                                    {.rows = 1,
                                     .experts = 8,
                                     .picks = 4,
                                     .groups = groups,
                                     .groups_kept = groups == 1 ? 1u : 2u,
                                     .sigmoid = sigmoid},
                                    logits)
                                  .chosen;
                std::ranges::sort(chosen);
                EXPECT_LT(chosen.back(), 8u);
                EXPECT_EQ(std::ranges::adjacent_find(chosen), chosen.end());
            }
}

TEST_P(Experts, ARowChoosesTheSameInAnyCompany) {
    const RouteCase together{.rows = 37, .experts = 100, .picks = 7};
    const auto logits = random_floats(together.rows * together.experts, 3);
    const Routes expected = route(GetParam(), together, logits);
    const Routes by_five = route(GetParam(), together, logits, 5);
    EXPECT_EQ(by_five.chosen, expected.chosen);
    EXPECT_EQ(bits(by_five.weights), bits(expected.weights));
    for (std::size_t row = 0; row < together.rows; ++row) {
        const Routes alone =
            route(GetParam(), {.rows = 1, .experts = 100, .picks = 7}, row_of(logits, row, together.experts));
        EXPECT_EQ(alone.chosen, row_of(expected.chosen, row, 7));
        EXPECT_EQ(bits(alone.weights), bits(row_of(expected.weights, row, 7)));
    }
}

TEST_P(Experts, RoutersOfTheGoldenFileWeighAsTheReference) {
    const Golden golden("nemotron_h-moe/router.safetensors");
    for (const std::string name : {"case0.", "case1.", "case2.", "case3."}) {
        const auto params = golden.ints(name + "params").values;  // experts, picks, groups, kept, normalise
        const auto logits = golden.floats(name + "logits").values,
                   want = golden.floats(name + "dense_weights").values;
        const RouteCase of{.rows = logits.size() / std::size_t(params[0]),
                           .experts = std::size_t(params[0]),
                           .picks = std::size_t(params[1]),
                           .groups = uint(params[2]),
                           .groups_kept = uint(params[3]),
                           .sigmoid = true,
                           .normalise = params[4] != 0,
                           .epsilon = 1e-20f,
                           .scale = golden.floats(name + "scale").values[0],
                           .correction = golden.floats(name + "bias").values};
        const Routes got = route(GetParam(), of, logits);
        std::vector<float> dense(want.size());
        for (std::size_t i = 0; i < got.chosen.size(); ++i)
            dense[i / of.picks * of.experts + got.chosen[i]] = got.weights[i];
        for (std::size_t i = 0; i < want.size(); ++i)
            ASSERT_TRUE(std::fabs(dense[i] - want[i]) < 2e-6) << name << ", row " << i / of.experts;
    }
}

// ---- grouping

TEST_P(Experts, GroupsHoldTheRowsOfAnExpertInOrder) {
    for (const auto& [rows, picks, experts] :
         {std::array<std::size_t, 3>{1, 1, 1}, {1, 4, 9}, {5, 3, 4}, {7, 2, 100}, {200, 8, 31}, {3, 6, 6}}) {
        std::vector<uint> chosen;
        const auto random = random_words(rows * experts, std::uint32_t(rows));
        for (std::size_t row = 0; row < rows; ++row) {
            std::vector<double> keys;
            for (std::size_t e = 0; e < experts; ++e) keys.push_back(random[row * experts + e]);
            for (const auto e : best_of(keys, picks)) chosen.push_back(uint(e));
        }
        const std::size_t most = std::min(experts, rows * picks);
        Lab lab(GetParam());
        const Out<float> groups = lab.room(3 * most), from = lab.room(rows * picks),
                         places = lab.room(rows * picks);
        lab.run(group_by_expert, {.chosen = lab.give(chosen),
                                  .groups = reinterpret_cast<Out<ExpertGroup>>(groups),
                                  .from = reinterpret_cast<Out<uint>>(from),
                                  .places = reinterpret_cast<Out<uint>>(places),
                                  .rows = uint(rows),
                                  .picks = uint(picks),
                                  .experts = uint(experts)});
        std::vector<uint> want_groups, want_from, want_places(rows * picks);
        for (uint expert = 0; expert < experts; ++expert) {
            const auto first = uint(want_from.size());
            for (std::size_t i = 0; i < chosen.size(); ++i) {
                if (chosen[i] != expert) continue;
                want_places[i] = uint(want_from.size());
                want_from.push_back(uint(i / picks));
            }
            if (want_from.size() > first)
                want_groups.insert(want_groups.end(), {expert, first, uint(want_from.size()) - first});
        }
        want_groups.resize(3 * most);
        EXPECT_EQ(words(lab.read(groups, 3 * most)), want_groups);
        EXPECT_EQ(words(lab.read(from, rows * picks)), want_from);
        EXPECT_EQ(words(lab.read(places, rows * picks)), want_places);
    }
}

// ---- adding up

struct CombineCase {
    std::size_t rows, picks, columns;
    bool shared = false, gate = false, add = false, in_place = false;
};

std::vector<float> combine(const Place& place, const CombineCase& of, std::size_t first_row = 0) {
    Lab lab(place);
    const std::size_t all = 13 * of.picks;  // rows of x; a row's places are its own whatever the company
    const auto x = random_floats(all * of.columns, 1);
    std::vector<uint> places;
    for (std::size_t i = 0; i < of.rows * of.picks; ++i)
        places.push_back(uint((first_row * of.picks + i) * 5 % all));
    const auto from = [&](const std::vector<float>& values, std::size_t columns) {
        return std::vector<float>(values.begin() + std::ptrdiff_t(first_row * columns),
                                  values.begin() + std::ptrdiff_t((first_row + of.rows) * columns));
    };
    const auto weights = from(random_floats(13 * of.picks, 2), of.picks),
               shared = from(random_floats(13 * of.columns, 3), of.columns),
               gate = from(random_floats(13, 4, 3), 1),
               add = from(random_floats(13 * of.columns, 5), of.columns);
    const Out<float> y = of.in_place ? lab.room(add) : lab.room(of.rows * of.columns);
    lab.run(combine_experts_f32, {.x = lab.give(x),
                                  .places = lab.give(places),
                                  .weights = lab.give(weights),
                                  .shared = of.shared ? lab.give(shared) : nullptr,
                                  .shared_gate = of.gate ? lab.give(gate) : nullptr,
                                  .add = of.in_place ? y
                                         : of.add    ? lab.give(add)
                                                     : nullptr,
                                  .y = y,
                                  .rows = uint(of.rows),
                                  .picks = uint(of.picks),
                                  .columns = uint(of.columns)});
    const auto got = lab.read(y, of.rows * of.columns);
    std::vector<double> want;
    for (std::size_t row = 0; row < of.rows; ++row)
        for (std::size_t c = 0; c < of.columns; ++c) {
            double total = of.add || of.in_place ? add[row * of.columns + c] : 0;
            for (std::size_t pick = 0; pick < of.picks; ++pick)
                total += double(weights[row * of.picks + pick]) *
                         x[places[row * of.picks + pick] * of.columns + c];
            if (of.shared)
                total += shared[row * of.columns + c] / (of.gate ? 1 + std::exp(-double(gate[row])) : 1.0);
            want.push_back(total);
        }
    EXPECT_TRUE(largest_error(got, want) < 5e-6) << of.columns << " columns";
    return got;
}

TEST_P(Experts, ARowIsTheWeightedSumOfItsExperts) {
    for (const std::size_t columns : {1u, 7u, 16u, 64u, 65u, 257u})
        for (const std::size_t picks : {1u, 3u, 10u})
            for (const std::size_t rows : {1u, 4u, 13u}) {
                combine(GetParam(), {rows, picks, columns});
                combine(GetParam(), {rows, picks, columns, true, true, true});
                combine(GetParam(), {rows, picks, columns, true, false, false, true});
            }
}

TEST_P(Experts, ASumHasTheSameBitsInAnyCompany) {
    const CombineCase all{13, 5, 33, true, true, true};
    const auto together = combine(GetParam(), all);
    for (std::size_t row = 0; row < 13; ++row)
        EXPECT_EQ(bits(combine(GetParam(), {1, 5, 33, true, true, true}, row)),
                  bits(row_of(together, row, 33)));
}

}  // namespace
}  // namespace kapitsa

// What stands around attention: rotation angles, queries and keys normed and rotated, tokens put into pages
// and moved together.
#include <cmath>

#include "kernels/lab.h"
#include "kernels/pages.h"

namespace kapitsa {
namespace {

KERNEL_TESTS(AttendInput);

TEST_P(AttendInput, AnglesAreRightToTheLastPositions) {
    for (const std::size_t half : {1u, 5u, 8u, 32u}) {
        const std::vector<uint> positions{0, 1, 2, 77, 4095, 65537, 262143};
        std::vector<float> frequencies;
        for (std::size_t i = 0; i < half; ++i)
            frequencies.push_back(float(std::pow(1e7, -double(i) / double(half))));
        std::vector<double> cosines, sines;
        for (const uint position : positions)
            for (const float frequency : frequencies) {
                const double angle =
                    float(position) * frequency;  // rounded to f32, as the references have it
                cosines.push_back(std::cos(angle));
                sines.push_back(std::sin(angle));
            }
        Lab lab(GetParam());
        const Out<float> c = lab.room(cosines.size()), s = lab.room(cosines.size());
        // The coordinate that counts is another one for each frequency, and the others are far off.
        std::vector<uint> axes, points(positions.size() * position_axes, 99999);
        for (std::size_t i = 0; i < half; ++i) axes.push_back(uint(i % position_axes));
        for (uint axis = 0; axis < position_axes; ++axis) {
            auto mine = points;
            for (std::size_t row = 0; row < positions.size(); ++row)
                mine[row * position_axes + axis] = positions[row];
            lab.run(rope_table_f32, {lab.give(mine), axis ? lab.give(axes) : nullptr, lab.give(frequencies),
                                     c, s, uint(positions.size()), uint(half)});
            const auto got_c = lab.read(c, cosines.size()), got_s = lab.read(s, cosines.size());
            for (std::size_t i = 0; i < cosines.size(); ++i) {
                if (axis && i % half % position_axes != axis) continue;
                EXPECT_NEAR(got_c[i], cosines[i], 1e-6);
                EXPECT_NEAR(got_s[i], sines[i], 1e-6);
            }
        }
    }
}

/// x / rms(x) * weight, then i rotated with i + half.
std::vector<double> obvious_head(const float* x, const std::vector<float>& weight, const float* cosines,
                                 const float* sines, std::size_t half, double epsilon) {
    const std::size_t width = weight.size();
    double squares = 0;
    for (std::size_t i = 0; i < width; ++i) squares += double(x[i]) * x[i];
    std::vector<double> y;
    for (std::size_t i = 0; i < width; ++i)
        y.push_back(x[i] / std::sqrt(squares / double(width) + epsilon) * weight[i]);
    for (std::size_t i = 0; i < half; ++i) {
        const double a = y[i], b = y[i + half];
        y[i] = a * cosines[i] - b * sines[i];
        y[i + half] = b * cosines[i] + a * sines[i];
    }
    return y;
}

struct Heads {
    std::size_t heads, kv_heads, width, half, q_stride;
};

TEST_P(AttendInput, QueriesAndKeysAreNormedAndRotatedAndTokensGoToTheirSlots) {
    constexpr float epsilon = 1e-6f;
    for (const Heads& h : {Heads{1, 1, 5, 1, 5},
                           {3, 1, 16, 8, 16},
                           {4, 2, 64, 8, 128},
                           {8, 1, 33, 0, 40},
                           {2, 2, 256, 32, 512}}) {
        const std::vector<uint> slots{37, 0, 15, 16, 63};
        const std::size_t rows = slots.size();
        const auto q = random_floats(rows * h.heads * h.q_stride, 1, 3),
                   k = random_floats(rows * h.kv_heads * h.width, 2, 3),
                   v = random_floats(rows * h.kv_heads * h.width, 3), q_norm = random_floats(h.width, 4, 2),
                   k_norm = random_floats(h.width, 5, 2);
        std::vector<float> cosines, sines;
        for (const float angle : random_floats(rows * h.half, 6, 3)) {
            cosines.push_back(std::cos(angle));
            sines.push_back(std::sin(angle));
        }
        Pages before(h.kv_heads, h.width, 4);
        before.keys = random_floats(before.keys.size(), 7);
        before.values = random_floats(before.keys.size(), 8);

        std::vector<double> rotated;
        Pages want = before;
        for (std::size_t row = 0; row < rows; ++row) {
            const float *c = cosines.data() + row * h.half, *s = sines.data() + row * h.half;
            for (std::size_t head = 0; head < h.heads; ++head)
                for (const double x :
                     obvious_head(&q[(row * h.heads + head) * h.q_stride], q_norm, c, s, h.half, epsilon))
                    rotated.push_back(x);
            for (std::size_t head = 0; head < h.kv_heads; ++head) {
                const std::size_t at = (row * h.kv_heads + head) * h.width;
                const auto key = obvious_head(&k[at], k_norm, c, s, h.half, epsilon);
                for (std::size_t i = 0; i < h.width; ++i) {
                    want.key(slots[row], head, i) = float(key[i]);
                    want.value(slots[row], head, i) = v[at + i];
                }
            }
        }

        Lab lab(GetParam());
        const Out<float> got = lab.room(rotated.size()), keys = lab.room(before.keys),
                         values = lab.room(before.values);
        lab.run(attend_inputs_f32, {.q = lab.give(q),
                                    .k = lab.give(k),
                                    .v = lab.give(v),
                                    .q_norm = lab.give(q_norm),
                                    .k_norm = lab.give(k_norm),
                                    .cosines = lab.give(cosines),
                                    .sines = lab.give(sines),
                                    .slots = lab.give(slots),
                                    .rotated = got,
                                    .keys = keys,
                                    .values = values,
                                    .rows = uint(rows),
                                    .heads = uint(h.heads),
                                    .kv_heads = uint(h.kv_heads),
                                    .width = uint(h.width),
                                    .half = uint(h.half),
                                    .q_stride = uint(h.q_stride),
                                    .q_norm_stride = 0,
                                    .rotates_first = 0,
                                    .epsilon = epsilon});
        EXPECT_LT(largest_error(lab.read(got, rotated.size()), rotated), 4e-6) << h.width;
        const std::vector<double> want_keys(want.keys.begin(), want.keys.end());
        EXPECT_LT(largest_error(lab.read(keys, want.keys.size()), want_keys), 4e-6) << h.width;
        EXPECT_EQ(bits(lab.read(values, want.values.size())), bits(want.values)) << h.width;
    }
}

TEST_P(AttendInput, WhereRotationComesFirstTheNormIsThatOfTheRotatedHeadAndMayDifferByHead) {
    constexpr uint heads = 4, kv_heads = 2, width = 20, half = 10;
    constexpr float epsilon = 1e-6f;
    const std::vector<uint> slots{17, 2, 31};
    const auto q = random_floats(slots.size() * heads * width, 1, 3),
               k = random_floats(slots.size() * kv_heads * width, 2, 3),
               v = random_floats(slots.size() * kv_heads * width, 3), norms = random_floats(heads * width, 4),
               k_norm = random_floats(width, 5);
    std::vector<float> cosines, sines;
    for (const float angle : random_floats(slots.size() * half, 6, 3)) {
        cosines.push_back(std::cos(angle));
        sines.push_back(std::sin(angle));
    }
    // Rotation keeps the length of a head, so the norm is the same before it; its weights are not.
    const auto rotated_then_normed = [&](const float* x, const float* weight, std::size_t row) {
        auto y = obvious_head(x, std::vector<float>(width, 1), &cosines[row * half], &sines[row * half], half,
                              epsilon);
        for (std::size_t i = 0; i < width; ++i) y[i] *= weight[i];
        return y;
    };
    std::vector<double> rotated;
    Pages want(kv_heads, width, 2);
    for (std::size_t row = 0; row < slots.size(); ++row) {
        for (std::size_t head = 0; head < heads; ++head)
            for (const double x :
                 rotated_then_normed(&q[(row * heads + head) * width], &norms[head * width], row))
                rotated.push_back(x);
        for (std::size_t head = 0; head < kv_heads; ++head) {
            const auto key = rotated_then_normed(&k[(row * kv_heads + head) * width], k_norm.data(), row);
            for (std::size_t i = 0; i < width; ++i) want.key(slots[row], head, i) = float(key[i]);
        }
    }
    Lab lab(GetParam());
    const Out<float> got = lab.room(rotated.size()), keys = lab.room(want.keys),
                     values = lab.room(want.values);
    lab.run(attend_inputs_f32, {.q = lab.give(q),
                                .k = lab.give(k),
                                .v = lab.give(v),
                                .q_norm = lab.give(norms),
                                .k_norm = lab.give(k_norm),
                                .cosines = lab.give(cosines),
                                .sines = lab.give(sines),
                                .slots = lab.give(slots),
                                .rotated = got,
                                .keys = keys,
                                .values = values,
                                .rows = uint(slots.size()),
                                .heads = heads,
                                .kv_heads = kv_heads,
                                .width = width,
                                .half = half,
                                .q_stride = width,
                                .q_norm_stride = width,
                                .rotates_first = 1,
                                .epsilon = epsilon});
    EXPECT_LT(largest_error(lab.read(got, rotated.size()), rotated), 4e-6);
    for (std::size_t row = 0; row < slots.size(); ++row)
        for (std::size_t head = 0; head < kv_heads; ++head)
            for (std::size_t i = 0; i < width; ++i) {
                const float key = lab.read(
                    keys, want.keys.size())[std::size_t(&want.key(slots[row], head, i) - want.keys.data())];
                EXPECT_NEAR(key, want.key(slots[row], head, i), 4e-6);
            }
}

TEST_P(AttendInput, WithoutNormsAndRotationQueriesAndKeysAreWhatTheyWere) {
    constexpr uint heads = 4, kv_heads = 2, width = 24;
    const std::vector<uint> slots{17, 2, 31};
    const auto q = random_floats(slots.size() * heads * width, 1),
               k = random_floats(slots.size() * kv_heads * width, 2),
               v = random_floats(slots.size() * kv_heads * width, 3);
    Pages want(kv_heads, width, 2);
    Lab lab(GetParam());
    const Out<float> got = lab.room(q.size()), keys = lab.room(want.keys), values = lab.room(want.values);
    for (std::size_t row = 0; row < slots.size(); ++row)
        for (std::size_t head = 0; head < kv_heads; ++head)
            for (std::size_t i = 0; i < width; ++i) {
                want.key(slots[row], head, i) = k[(row * kv_heads + head) * width + i];
                want.value(slots[row], head, i) = v[(row * kv_heads + head) * width + i];
            }
    lab.run(attend_inputs_f32, {.q = lab.give(q),
                                .k = lab.give(k),
                                .v = lab.give(v),
                                .q_norm = nullptr,
                                .k_norm = nullptr,
                                .cosines = nullptr,
                                .sines = nullptr,
                                .slots = lab.give(slots),
                                .rotated = got,
                                .keys = keys,
                                .values = values,
                                .rows = uint(slots.size()),
                                .heads = heads,
                                .kv_heads = kv_heads,
                                .width = width,
                                .half = 0,
                                .q_stride = width,
                                .q_norm_stride = 0,
                                .rotates_first = 0,
                                .epsilon = 0});
    EXPECT_EQ(bits(lab.read(got, q.size())), bits(q));
    EXPECT_EQ(bits(lab.read(keys, want.keys.size())), bits(want.keys));
    EXPECT_EQ(bits(lab.read(values, want.values.size())), bits(want.values));
}

TEST_P(AttendInput, MovesTokensInTheOrderOfTheList) {
    for (const std::size_t width : {1u, 5u, 64u}) {
        // Each place is read before it is written to, some right after; the last pair goes over pages.
        const std::vector<uint> from{3, 5, 6, 9, 17, 47, 2}, to{2, 3, 5, 6, 9, 15, 31};
        Pages before(2, width, 3);
        before.keys = random_floats(before.keys.size(), 1);
        before.values = random_floats(before.keys.size(), 2);
        Pages want = before;
        for (std::size_t i = 0; i < from.size(); ++i) want.copy_token(want, from[i], to[i]);

        Lab lab(GetParam());
        const Out<float> keys = lab.room(before.keys), values = lab.room(before.values);
        lab.run(move_tokens_f32,
                {lab.give(from), lab.give(to), keys, values, uint(from.size()), 2, uint(width)});
        EXPECT_EQ(bits(lab.read(keys, want.keys.size())), bits(want.keys));
        EXPECT_EQ(bits(lab.read(values, want.values.size())), bits(want.values));
    }
}

}  // namespace
}  // namespace kapitsa

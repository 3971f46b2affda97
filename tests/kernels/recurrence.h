// What any recurrent rule promises, over the rows it takes: that it is its recurrence in double however it is
// launched, and that cuts, company and threads change no bit.
//
// A rule under test is a class Rows, the inputs of its kernels, with
//     shape, rows, and picked(list): the same of some rows,
//     static random(shape, rows, seed),
//     obvious_row(row, states, o): moves all heads' states on in double and appends the outputs,
//     launch_rows, launch_chunks and launch_commit, which run the kernels of its three forms,
//     limit: what a result may be off by.
#pragma once

#include "kernels/lab.h"
#include "kernels/segments.h"
#include "kernels/trees.h"

namespace kapitsa {

/// Neighbouring rows.
template <class Rows>
Rows part(const Rows& all, std::size_t first, std::size_t count) {
    std::vector<uint> list;
    for (std::size_t i = 0; i < count; ++i) list.push_back(uint(first + i));
    return all.picked(list);
}

/// All rows one after the other, from a state.
template <class Rows>
std::vector<double> obvious_chain(const Rows& in, std::vector<double>& states) {
    std::vector<double> o;
    for (std::size_t row = 0; row < in.rows; ++row) in.obvious_row(row, states, o);
    return o;
}

struct Outcome {
    std::vector<float> o, states;
};

enum class Form { rows, chunks };

/// A launch over segments; `states` are those of all sequences.
template <class Rows>
Outcome run(const Place& place, Form form, const Rows& in, const std::vector<SegmentRows>& segments,
            const std::vector<int>& parents, const std::vector<float>& states, std::uint32_t threads = 1) {
    const std::size_t outputs = in.rows * in.shape.outputs();
    Lab lab(place, threads);
    const Out<float> moved = lab.room(states), o = lab.room(outputs);
    if (form == Form::rows)
        in.launch_rows(lab, parents, segments, moved, o);
    else
        in.launch_chunks(lab, segments, moved, o);
    return {lab.read(o, outputs), lab.read(moved, states.size())};
}

/// One chain of one sequence, committed.
template <class Rows>
Outcome run_chain(const Place& place, Form form, const Rows& in, const std::vector<float>& state,
                  uint committed = 0) {
    return run(place, form, in, {{0, 0, uint(in.rows), committed, 0, 1}}, chain(int(in.rows)), state);
}

inline std::vector<double> doubles(const std::vector<float>& values) {
    return {values.begin(), values.end()};
}

/// That a chain comes out as the recurrence does, outputs and state.
template <class Rows>
void expect_chain(const Place& place, Form form, const Rows& in, uint committed, double limit = Rows::limit) {
    SCOPED_TRACE(std::to_string(in.rows) + " rows after " + std::to_string(committed));
    const auto start = random_floats(in.shape.state(), 99);
    auto state = doubles(start);
    const auto o = obvious_chain(in, state);
    const Outcome got = run_chain(place, form, in, start, committed);
    EXPECT_LT(worst_relative(got.o, o), limit);
    EXPECT_LT(largest_error(got.states, state), limit);
}

/// Of the chunked form.
template <class Rows>
void expect_cuts_on_the_grid_change_nothing(const Place& place, const decltype(Rows::shape)& shape) {
    const Rows all = Rows::random(shape, 200, 3);
    const auto start = random_floats(shape.state(), 9);
    const Outcome whole = run_chain(place, Form::chunks, all, start, 5);
    for (const uint first : {59u, 123u}) {  // 5 + 59 = 64, 5 + 123 = 128
        const Outcome a = run_chain(place, Form::chunks, part(all, 0, first), start, 5);
        const Outcome b =
            run_chain(place, Form::chunks, part(all, first, all.rows - first), a.states, 5 + first);
        EXPECT_EQ(bits(joined(a.o, b.o)), bits(whole.o)) << first;
        EXPECT_EQ(bits(b.states), bits(whole.states)) << first;
    }
}

/// Of the form of single rows.
template <class Rows>
void expect_cuts_anywhere_change_nothing(const Place& place, const decltype(Rows::shape)& shape) {
    const Rows all = Rows::random(shape, 20, 3);
    const auto start = random_floats(shape.state(), 9);
    const Outcome whole = run_chain(place, Form::rows, all, start);
    for (const uint first : {1u, 7u, 19u}) {
        const Outcome a = run_chain(place, Form::rows, part(all, 0, first), start);
        const Outcome b = run_chain(place, Form::rows, part(all, first, all.rows - first), a.states);
        EXPECT_EQ(bits(joined(a.o, b.o)), bits(whole.o)) << first;
        EXPECT_EQ(bits(b.states), bits(whole.states)) << first;
    }
}

/// A chain of 9 of sequence 2, a tree of 16 of sequence 0, one row of sequence 3, a draft chain of 4 of 1.
template <class Rows>
struct MixedStep {
    std::vector<int> parents = joined(joined(joined(chain(9), tree(9)), {no_row}), chain(4, 26));
    std::vector<SegmentRows> segments{
        {2, 0, 9, 31, 0, 1}, {0, 9, 16, 7, 0, 0}, {3, 25, 1, 8, 0, 1}, {1, 26, 4, 1, 0, 0}};
    Rows in;
    std::vector<float> states;

    explicit MixedStep(const decltype(Rows::shape)& shape)
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

/// And that states of drafts stay.
template <class Rows>
void expect_trees_follow_ancestors(const Place& place, const decltype(Rows::shape)& shape) {
    const MixedStep<Rows> step(shape);
    const Outcome got = run(place, Form::rows, step.in, step.segments, step.parents, step.states);
    for (std::size_t row = 0; row < step.parents.size(); ++row) {
        const Rows path = step.in.picked(path_to(step.parents, row));
        auto state = doubles(step.state_before(step.segment_of(row).sequence));
        const auto o = obvious_chain(path, state);
        EXPECT_LT(
            worst_relative(row_of(got.o, row, shape.outputs()), row_of(o, path.rows - 1, shape.outputs())),
            Rows::limit)
            << row;
    }
    for (const SegmentRows& segment : step.segments) {
        const auto before = step.state_before(segment.sequence);
        const auto after = row_of(got.states, segment.sequence, shape.state());
        auto state = doubles(before);
        obvious_chain(part(step.in, segment.first_row, segment.rows), state);
        if (segment.commit)
            EXPECT_LT(largest_error(after, state), Rows::limit);
        else
            EXPECT_EQ(bits(after), bits(before));
    }
}

/// With any number of threads, too.
template <class Rows>
void expect_rows_as_alone(const Place& place, const decltype(Rows::shape)& shape) {
    const MixedStep<Rows> step(shape);
    const Outcome got = run(place, Form::rows, step.in, step.segments, step.parents, step.states);
    for (const std::uint32_t threads : {2u, 3u}) {
        const Outcome again =
            run(place, Form::rows, step.in, step.segments, step.parents, step.states, threads);
        EXPECT_EQ(bits(again.o), bits(got.o));
        EXPECT_EQ(bits(again.states), bits(got.states));
    }
    for (std::size_t row = 0; row < step.parents.size(); ++row) {
        const Rows path = step.in.picked(path_to(step.parents, row));
        const auto before = step.state_before(step.segment_of(row).sequence);
        const Outcome alone = run_chain(place, Form::rows, path, before);
        EXPECT_EQ(bits(row_of(alone.o, path.rows - 1, shape.outputs())),
                  bits(row_of(got.o, row, shape.outputs())))
            << row;
    }
}

/// With any number of threads, too.
template <class Rows>
void expect_chunked_chains_as_alone(const Place& place, const decltype(Rows::shape)& shape) {
    const Rows in = Rows::random(shape, 200, 5);
    const auto states = random_floats(3 * shape.state(), 6);
    const std::vector<SegmentRows> segments{
        {2, 0, 70, 3, 0, 1}, {0, 70, 129, 64, 0, 1}, {1, 199, 1, 63, 0, 1}};
    for (const std::uint32_t threads : {1u, 3u}) {
        const Outcome got = run(place, Form::chunks, in, segments, {}, states, threads);
        for (const SegmentRows& s : segments) {
            const Outcome alone = run_chain(place, Form::chunks, part(in, s.first_row, s.rows),
                                            row_of(states, s.sequence, shape.state()), s.committed);
            const std::vector<float> o(
                got.o.begin() + std::ptrdiff_t(s.first_row * shape.outputs()),
                got.o.begin() + std::ptrdiff_t((s.first_row + s.rows) * shape.outputs()));
            EXPECT_EQ(bits(o), bits(alone.o));
            EXPECT_EQ(bits(row_of(got.states, s.sequence, shape.state())), bits(alone.states));
        }
    }
}

/// The states of other sequences stay.
template <class Rows>
void expect_committed_paths_as_decoded(const Place& place, const decltype(Rows::shape)& shape) {
    const Rows in = Rows::random(shape, 16, 5);
    const auto states = random_floats(4 * shape.state(), 6);
    const std::vector<uint> list{0, 1, 4, 6, 7, 8, 9, 10, 11, 14};
    const std::vector<CommitPath> paths{{3, 0, 4}, {1, 4, 6}, {0, 2, 0}};  // of sequence 2: nothing
    Lab lab(place);
    const Out<float> moved = lab.room(states);
    in.launch_commit(lab, list, paths, moved);
    const auto got = lab.read(moved, states.size());
    EXPECT_EQ(bits(row_of(got, 0, shape.state())), bits(row_of(states, 0, shape.state())));
    EXPECT_EQ(bits(row_of(got, 2, shape.state())), bits(row_of(states, 2, shape.state())));
    for (const CommitPath& path : {paths[0], paths[1]}) {
        const Rows mine = in.picked({list.begin() + path.first, list.begin() + path.first + path.rows});
        const auto before = row_of(states, path.sequence, shape.state()),
                   after = row_of(got, path.sequence, shape.state());
        auto state = doubles(before);
        obvious_chain(mine, state);
        EXPECT_LT(largest_error(after, state), Rows::limit);
        EXPECT_EQ(bits(after), bits(run_chain(place, Form::rows, mine, before).states));
    }
}

}  // namespace kapitsa

// How the rules with a state of columns go over rows: delta_net.h and mamba2.h say what one row does. The
// columns of a state do not meet, so a group has a head and 32 of its columns, a lane each, and goes through
// the rows one by one. Its simdgroups share the depth of the state, which they keep in registers from row to
// row; what has to be summed over the depth goes through scratch, in one order. A draft row is reached from
// the committed state along its ancestors, so that its bits are those of decoding them.
#pragma once

#include "kernels/segments.h"

namespace kapitsa {

constexpr uint state_columns = 32, state_simdgroups = 8;  // of a group
constexpr uint most_state_depth = 256;

#ifdef KERNEL_BODIES

constexpr uint most_draft_depth = 64;  // rows of a draft segment, and so of a path in it

struct StateScratch {
    float partial[2][state_simdgroups][32];  // by turns: one is read while the other is written
    uint path[most_draft_depth];             // a draft row's ancestors, the row itself first
};

/// The thread's part of a state [depth, width]: `rows` at most of one column.
template <uint rows>
struct StatePart {
    float values[rows];
    uint first, count;  // of the depth
    uint turn;          // which half of the scratch comes next
};

template <uint rows>
BODY StatePart<rows> state_part(uint depth, uint simdgroup) {
    StatePart<rows> part;
    const uint each = (depth + state_simdgroups - 1) / state_simdgroups;
    part.first = min(simdgroup * each, depth);
    part.count = min(each, depth - part.first);
    part.turn = 0;
    return part;
}

/// `state` points at the thread's column; lanes behind the last column have zeros.
template <uint rows>
BODY void fetch_state(Local<StatePart<rows>> part, In<float> state, uint width, bool here) {
    UNROLL for (uint i = 0; i < rows; ++i) part->values[i] =
        here && i < part->count ? state[(part->first + i) * width] : 0.0f;
}
template <uint rows>
BODY void put_state(Local<StatePart<rows>> part, Out<float> state, uint width, bool here) {
    UNROLL for (uint i = 0; i < rows; ++i) if (here && i < part->count) state[(part->first + i) * width] =
        part->values[i];
}

/// The sum over the depth of what each simdgroup has of it, for the lane's column.
template <uint rows>
BODY float sum_over_depth(Local<StatePart<rows>> part, float value, Position at,
                          Shared<StateScratch> scratch) {
    const uint turn = part->turn;
    part->turn = 1 - turn;
    scratch.partial[turn][at.simdgroup][at.lane] = value;
    group_barrier();
    float total = 0;
    UNROLL for (uint s = 0; s < state_simdgroups; ++s) total += scratch.partial[turn][s][at.lane];
    return total;
}

/// A rule's step<rows>(args, row, head, column, here, part, at, scratch, says) moves the state one row on
/// and, if it `says` so, writes the row's output.
///
/// A chain that is committed: the state goes through its rows.
template <class Rule, uint rows, class A>
BODY void walk_chain(Args<A> args, SegmentRows segment, Position at, Shared<StateScratch> scratch, uint depth,
                     uint width, uint heads) {
    const uint head = at.group.y, column = at.group.x * state_columns + at.lane;
    const bool here = column < width;
    StatePart<rows> part = state_part<rows>(depth, at.simdgroup);
    const Out<float> state = args.states + (ulong(segment.sequence) * heads + head) * depth * width + column;
    fetch_state<rows>(&part, state, width, here);
    for (uint row = segment.first_row; row < segment.first_row + segment.rows; ++row)
        Rule::template step<rows>(args, row, head, column, here, &part, at, scratch, true);
    put_state<rows>(&part, state, width, here);
}

/// A draft: each row from the committed state along its ancestors. No state is written.
template <class Rule, uint rows, class A>
BODY void walk_draft(Args<A> args, SegmentRows segment, Position at, Shared<StateScratch> scratch, uint depth,
                     uint width, uint heads) {
    const uint head = at.group.y, column = at.group.x * state_columns + at.lane;
    const bool here = column < width;
    StatePart<rows> part = state_part<rows>(depth, at.simdgroup);
    const In<float> state = args.states + (ulong(segment.sequence) * heads + head) * depth * width + column;
    fetch_state<rows>(&part, state, width, here);
    for (uint row = segment.first_row; row < segment.first_row + segment.rows; ++row) {
        const int parent = args.parents[row];
        if (row > segment.first_row &&
            parent != int(row) - 1) {  // not where the row before has left the state
            fetch_state<rows>(&part, state, width, here);
            group_barrier();
            uint ancestors = 0;
            for (int from = parent; from != no_row; from = args.parents[from]) {
                if (at.index == 0) scratch.path[ancestors] = uint(from);
                ++ancestors;
            }
            group_barrier();
            for (uint i = ancestors; i-- > 0;)
                Rule::template step<rows>(args, scratch.path[i], head, column, here, &part, at, scratch,
                                          false);
        }
        Rule::template step<rows>(args, row, head, column, here, &part, at, scratch, true);
    }
}

template <class Rule, uint rows, class A>
BODY void walk_segment(Args<A> args, Position at, Shared<StateScratch> scratch, uint depth, uint width,
                       uint heads) {
    const SegmentRows segment = args.segments[at.group.z];
    if (segment.commit != 0)
        walk_chain<Rule, rows, A>(args, segment, at, scratch, depth, width, heads);
    else
        walk_draft<Rule, rows, A>(args, segment, at, scratch, depth, width, heads);
}

/// One path, replayed into its sequence's state.
template <class Rule, uint rows, class A>
BODY void replay_path(Args<A> args, Position at, Shared<StateScratch> scratch, uint depth, uint width,
                      uint heads) {
    const CommitPath path = args.paths[at.group.z];
    const uint head = at.group.y, column = at.group.x * state_columns + at.lane;
    const bool here = column < width;
    StatePart<rows> part = state_part<rows>(depth, at.simdgroup);
    const Out<float> state = args.states + (ulong(path.sequence) * heads + head) * depth * width + column;
    fetch_state<rows>(&part, state, width, here);
    for (uint i = 0; i < path.rows; ++i)
        Rule::template step<rows>(args, args.path_rows[path.first + i], head, column, here, &part, at,
                                  scratch, false);
    put_state<rows>(&part, state, width, here);
}

#endif

}  // namespace kapitsa

// The state-space rule of Mamba-2. Per head, with a state S [state width, head width] and a step length dt:
//     S = exp(-rate dt) S + b (dt x)^T;   y = S^T c + skip x
// A head h uses b and c of the group h / (heads / groups).
// Source: Dao and Gu, "Transformers are SSMs", 2024; the form of Nemotron-H's reference implementation.
#pragma once

#include "kernels/activations.h"
#include "kernels/segments.h"
#include "kernels/state_walk.h"

namespace kapitsa {

/// dt = softplus(raw + bias), held within [least, most].
struct Mamba2Steps {
    In<float> raw;   // [rows, heads]
    In<float> bias;  // [heads]
    Out<float> dt;   // [rows, heads]
    uint rows, heads;
    float least, most;
};
GRID(Mamba2Steps, parts_of(args.rows* args.heads, 256), 1, 1, 256)

/// The rule row by row along chains and trees. A `commit` segment writes its state; a draft leaves it.
struct Mamba2Rows {
    In<float> xbc;   // [rows, heads * head_width + 2 * groups * state_width]: x, b, c
    In<float> dt;    // [rows, heads]
    In<float> rate;  // [heads] exp(A_log)
    In<float> skip;  // [heads]
    In<int> parents;
    In<SegmentRows> segments;  // [count]
    Out<float> states;         // [sequences, heads, state_width, head_width]
    Out<float> o;              // [rows, heads, head_width]
    uint count, heads, groups, head_width, state_width;
};
GRID(Mamba2Rows, parts_of(args.head_width, state_columns), args.heads, args.count, state_simdgroups * 32)

/// The rule over long chains, in chunks of `recurrent_chunk_rows` that begin at multiples of it in the
/// sequence: the products inside a chunk are taken at once, and only the state goes from chunk to chunk.
struct Mamba2Chunks {
    In<float> xbc, dt, rate, skip;
    In<SegmentRows> segments;  // [count], all of them `commit`
    Out<float> states;
    Out<float> o;
    uint count, heads, groups, head_width, state_width;
};
GRID(Mamba2Chunks, parts_of(args.head_width, state_columns), args.heads, args.count, state_simdgroups * 32)

/// Replays rows into states, as if they had been decoded.
struct Mamba2Commit {
    In<float> xbc, dt, rate, skip;
    In<uint> path_rows;    // rows of xbc and dt
    In<CommitPath> paths;  // [count]
    Out<float> states;
    uint count, heads, groups, head_width, state_width;
};
GRID(Mamba2Commit, parts_of(args.head_width, state_columns), args.heads, args.count, state_simdgroups * 32)

#ifdef KERNEL_BODIES

BODY void mamba2_steps(Args<Mamba2Steps> args, Position at, Shared<None>) {
    const uint i = at.group.x * 256 + at.index;
    if (i >= args.rows * args.heads) return;
    const float dt = softplus(args.raw[i] + args.bias[i % args.heads]);
    // Written so that NaN stays what it is.
    args.dt[i] = dt < args.least ? args.least : dt > args.most ? args.most : dt;
}

struct Mamba2Rule {
    template <uint rows, class A>
    static BODY void step(Args<A> args, uint row, uint head, uint column, bool here,
                          Local<StatePart<rows>> part, Position at, Shared<StateScratch> scratch, bool says) {
        const uint inner = args.heads * args.head_width, group = head / (args.heads / args.groups);
        const In<float> xbc = args.xbc + ulong(row) * (inner + 2 * args.groups * args.state_width);
        const In<float> b = xbc + inner + group * args.state_width + part->first,
                        c = b + args.groups * args.state_width;
        const ulong numbers = ulong(row) * args.heads + head;
        const float dt = args.dt[numbers], decay = exp(-args.rate[head] * dt);
        const float x = here ? xbc[head * args.head_width + column] : 0.0f, change = dt * x;
        UNROLL for (uint i = 0; i < rows; ++i) if (i < part->count) part->values[i] =
            fma(b[i], change, decay * part->values[i]);
        if (!says) return;
        float said = 0;
        UNROLL for (uint i = 0; i < rows; ++i) if (i < part->count) said = fma(c[i], part->values[i], said);
        said = fma(args.skip[head], x, sum_over_depth<rows>(part, said, at, scratch));
        if (at.simdgroup == 0 && here) write(args, numbers * args.head_width + column, said);
    }

    template <class A>
    static BODY void write(Args<A> args, ulong place, float value) {
        args.o[place] = value;
    }
    static BODY void write(Args<Mamba2Commit>, ulong, float) {}  // it says nothing
};

BODY void mamba2_rows(Args<Mamba2Rows> args, Position at, Shared<StateScratch> scratch) {
    if (args.state_width <= most_state_depth / 2)
        walk_segment<Mamba2Rule, most_state_depth / 2 / state_simdgroups, Mamba2Rows>(
            args, at, scratch, args.state_width, args.head_width, args.heads);
    else
        walk_segment<Mamba2Rule, most_state_depth / state_simdgroups, Mamba2Rows>(
            args, at, scratch, args.state_width, args.head_width, args.heads);
}

BODY void mamba2_chunks(Args<Mamba2Chunks> args, Position at, Shared<StateScratch> scratch) {
    if (args.state_width <= most_state_depth / 2)
        walk_chain<Mamba2Rule, most_state_depth / 2 / state_simdgroups, Mamba2Chunks>(
            args, args.segments[at.group.z], at, scratch, args.state_width, args.head_width, args.heads);
    else
        walk_chain<Mamba2Rule, most_state_depth / state_simdgroups, Mamba2Chunks>(
            args, args.segments[at.group.z], at, scratch, args.state_width, args.head_width, args.heads);
}

BODY void mamba2_commit(Args<Mamba2Commit> args, Position at, Shared<StateScratch> scratch) {
    if (args.state_width <= most_state_depth / 2)
        replay_path<Mamba2Rule, most_state_depth / 2 / state_simdgroups, Mamba2Commit>(
            args, at, scratch, args.state_width, args.head_width, args.heads);
    else
        replay_path<Mamba2Rule, most_state_depth / state_simdgroups, Mamba2Commit>(
            args, at, scratch, args.state_width, args.head_width, args.heads);
}

#endif

ENTRY(mamba2_steps_f32, mamba2_steps, Mamba2Steps, None)
ENTRY(mamba2_rows_f32, mamba2_rows, Mamba2Rows, StateScratch)
ENTRY(mamba2_chunks_f32, mamba2_chunks, Mamba2Chunks, StateScratch)
ENTRY(mamba2_commit_f32, mamba2_commit, Mamba2Commit, StateScratch)

}  // namespace kapitsa

// The state-space rule of Mamba-2. Per head, with a state S [state width, head width] and a step length dt:
//     S = exp(-rate dt) S + b (dt x)^T;   y = S^T c + skip x
// A head h uses b and c of the group h / (heads / groups).
// Source: Dao and Gu, "Transformers are SSMs", 2024; the form of Nemotron-H's reference implementation.
#pragma once

#include "kernels/segments.h"

namespace kapitsa {

/// dt = softplus(raw + bias), held within [least, most].
struct Mamba2Steps {
    In<float> raw;   // [rows, heads]
    In<float> bias;  // [heads]
    Out<float> dt;   // [rows, heads]
    uint rows, heads;
    float least, most;
};

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

/// The rule over long chains, in chunks of `recurrent_chunk_rows` that begin at multiples of it in the
/// sequence: the products inside a chunk are taken at once, and only the state goes from chunk to chunk.
struct Mamba2Chunks {
    In<float> xbc, dt, rate, skip;
    In<SegmentRows> segments;  // [count], all of them `commit`
    Out<float> states;
    Out<float> o;
    uint count, heads, groups, head_width, state_width;
};

/// Replays rows into states, as if they had been decoded.
struct Mamba2Commit {
    In<float> xbc, dt, rate, skip;
    In<uint> path_rows;    // rows of xbc and dt
    In<CommitPath> paths;  // [count]
    Out<float> states;
    uint count, heads, groups, head_width, state_width;
};

ENTRY(mamba2_steps_f32, Mamba2Steps)
ENTRY(mamba2_rows_f32, Mamba2Rows)
ENTRY(mamba2_chunks_f32, Mamba2Chunks)
ENTRY(mamba2_commit_f32, Mamba2Commit)

}  // namespace kapitsa

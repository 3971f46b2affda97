// The gated delta rule. Per value head, with a state S [key width, value width]:
//     S = exp(g) S;   S += k (beta (v - S^T k))^T;   o = S^T q
// A value head h uses the query and key head h / (value heads / key heads), or, where the heads are tiled,
// h % key heads: GGUF files have them so.
// Source: Yang et al., "Gated Delta Networks", 2024; the form of Qwen3.5's reference implementation.
#pragma once

#include "kernels/segments.h"

namespace kapitsa {

/// The row's inputs as the rule wants them: q and k made unit vectors in place, q scaled by 1/sqrt(key
/// width), beta = sigmoid(b), g = -rate * softplus(a + dt_bias).
struct DeltaInputs {
    Out<float>
        qkv;      // [rows, 2 * key_heads * key_width + value_heads * value_width]: q heads, k heads, v heads
    In<float> a;  // [rows, value_heads]
    In<float> b;  // [rows, value_heads]
    In<float> rate;     // [value_heads] exp(A_log)
    In<float> dt_bias;  // [value_heads]
    Out<float> g;       // [rows, value_heads] the logarithm of the decay
    Out<float> beta;    // [rows, value_heads]
    uint rows, key_heads, value_heads, key_width, value_width;
};

/// The rule row by row along chains and trees. A `commit` segment writes its state; a draft leaves it.
struct DeltaRows {
    In<float> qkv, g, beta;    // as DeltaInputs leaves them
    In<int> parents;           // [rows]
    In<SegmentRows> segments;  // [count]
    Out<float> states;         // [sequences, value_heads, key_width, value_width]
    Out<float> o;              // [rows, value_heads, value_width]
    uint count, key_heads, value_heads, key_width, value_width;
    uint max_rows;  // of any draft segment here
    uint tiled = 0;
};

/// The rule over long chains, in chunks of `recurrent_chunk_rows` that begin at multiples of it in the
/// sequence: the WY form, where the products inside a chunk are solved at once and only the state goes from
/// chunk to chunk.
struct DeltaChunks {
    In<float> qkv, g, beta;
    In<SegmentRows> segments;  // [count], all of them `commit`
    Out<float> states;
    Out<float> o;
    uint count, key_heads, value_heads, key_width, value_width;
    uint tiled = 0;
};

/// Replays rows into states, as if they had been decoded.
struct DeltaCommit {
    In<float> qkv, g, beta;
    In<uint> path_rows;    // rows of qkv, g and beta
    In<CommitPath> paths;  // [count]
    Out<float> states;
    uint count, key_heads, value_heads, key_width, value_width;
    uint tiled = 0;
};

/// The query and key head of a value head. Args: any of the above.
template <typename Args>
uint key_head_of(const Args& args, uint value_head) {
    return args.tiled ? value_head % args.key_heads : value_head / (args.value_heads / args.key_heads);
}

ENTRY(delta_inputs_f32, DeltaInputs)
ENTRY(delta_rows_f32, DeltaRows)
ENTRY(delta_chunks_f32, DeltaChunks)
ENTRY(delta_commit_f32, DeltaCommit)

}  // namespace kapitsa

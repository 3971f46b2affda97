// The gated delta rule. Per value head, with a state S [key width, value width]:
//     S = exp(g) S;   S += k (beta (v - S^T k))^T;   o = S^T q
// A value head h uses the query and key head h / (value heads / key heads), or, where the heads are tiled,
// h % key heads: GGUF files have them so.
// Source: Yang et al., "Gated Delta Networks", 2024; the form of Qwen3.5's reference implementation.
#pragma once

#include "kernels/activations.h"
#include "kernels/segments.h"
#include "kernels/state_walk.h"

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
GRID(DeltaInputs, args.rows, 1, 1, 256)

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
GRID(DeltaRows, parts_of(args.value_width, state_columns), args.value_heads, args.count,
     state_simdgroups * 32)

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
GRID(DeltaChunks, parts_of(args.value_width, state_columns), args.value_heads, args.count,
     state_simdgroups * 32)

/// Replays rows into states, as if they had been decoded.
struct DeltaCommit {
    In<float> qkv, g, beta;
    In<uint> path_rows;    // rows of qkv, g and beta
    In<CommitPath> paths;  // [count]
    Out<float> states;
    uint count, key_heads, value_heads, key_width, value_width;
    uint tiled = 0;
};
GRID(DeltaCommit, parts_of(args.value_width, state_columns), args.value_heads, args.count,
     state_simdgroups * 32)

/// The query and key head of a value head.
INLINE uint key_head_of(uint value_head, uint key_heads, uint value_heads, uint tiled) {
    return tiled != 0 ? value_head % key_heads : value_head / (value_heads / key_heads);
}

#ifdef KERNEL_BODIES

/// A simdgroup has a head of queries or keys, or 32 value heads' numbers, by turns.
BODY void delta_inputs(Args<DeltaInputs> args, Position at, Shared<None>) {
    const uint row = at.group.x, keys = args.key_heads * args.key_width;
    const Out<float> qkv = args.qkv + ulong(row) * (2 * keys + args.value_heads * args.value_width);
    for (uint head = at.simdgroup; head < 2 * args.key_heads; head += at.simdgroups) {
        const Out<float> x = qkv + head * args.key_width;
        float squares = 0;
        for (uint i = at.lane; i < args.key_width; i += 32) squares = fma(x[i], x[i], squares);
        const float scale = head < args.key_heads ? rsqrt(float(args.key_width)) : 1.0f;
        const float factor = scale * rsqrt(simd_sum(squares) + 1e-6f);
        for (uint i = at.lane; i < args.key_width; i += 32) x[i] *= factor;
    }
    for (uint head = at.index; head < args.value_heads; head += at.simdgroups * 32) {
        const ulong i = ulong(row) * args.value_heads + head;
        args.beta[i] = sigmoid(args.b[i]);
        args.g[i] = -args.rate[head] * softplus(args.a[i] + args.dt_bias[head]);
    }
}

struct DeltaRule {
    template <uint rows, class A>
    static BODY void step(Args<A> args, uint row, uint head, uint column, bool here,
                          Local<StatePart<rows>> part, Position at, Shared<StateScratch> scratch, bool says) {
        const uint keys = args.key_heads * args.key_width,
                   key_head = key_head_of(head, args.key_heads, args.value_heads, args.tiled);
        const In<float> x = args.qkv + ulong(row) * (2 * keys + args.value_heads * args.value_width);
        const In<float> q = x + key_head * args.key_width + part->first, k = q + keys;
        const ulong numbers = ulong(row) * args.value_heads + head;
        const float decay = exp(args.g[numbers]), beta = args.beta[numbers];
        float predicted = 0;
        UNROLL for (uint i = 0; i < rows; ++i) if (i < part->count) predicted =
            fma(k[i], part->values[i], predicted);
        predicted = sum_over_depth<rows>(part, predicted, at, scratch);
        const float v = here ? x[2 * keys + head * args.value_width + column] : 0.0f;
        const float change = beta * fma(-decay, predicted, v);
        UNROLL for (uint i = 0; i < rows; ++i) if (i < part->count) part->values[i] =
            fma(k[i], change, decay * part->values[i]);
        if (!says) return;
        float said = 0;
        UNROLL for (uint i = 0; i < rows; ++i) if (i < part->count) said = fma(q[i], part->values[i], said);
        said = sum_over_depth<rows>(part, said, at, scratch);
        if (at.simdgroup == 0 && here) write(args, numbers * args.value_width + column, said);
    }

    template <class A>
    static BODY void write(Args<A> args, ulong place, float value) {
        args.o[place] = value;
    }
    static BODY void write(Args<DeltaCommit>, ulong, float) {}  // it says nothing
};

BODY void delta_rows(Args<DeltaRows> args, Position at, Shared<StateScratch> scratch) {
    if (args.key_width <= most_state_depth / 2)
        walk_segment<DeltaRule, most_state_depth / 2 / state_simdgroups, DeltaRows>(
            args, at, scratch, args.key_width, args.value_width, args.value_heads);
    else
        walk_segment<DeltaRule, most_state_depth / state_simdgroups, DeltaRows>(
            args, at, scratch, args.key_width, args.value_width, args.value_heads);
}

BODY void delta_chunks(Args<DeltaChunks> args, Position at, Shared<StateScratch> scratch) {
    if (args.key_width <= most_state_depth / 2)
        walk_chain<DeltaRule, most_state_depth / 2 / state_simdgroups, DeltaChunks>(
            args, args.segments[at.group.z], at, scratch, args.key_width, args.value_width, args.value_heads);
    else
        walk_chain<DeltaRule, most_state_depth / state_simdgroups, DeltaChunks>(
            args, args.segments[at.group.z], at, scratch, args.key_width, args.value_width, args.value_heads);
}

BODY void delta_commit(Args<DeltaCommit> args, Position at, Shared<StateScratch> scratch) {
    if (args.key_width <= most_state_depth / 2)
        replay_path<DeltaRule, most_state_depth / 2 / state_simdgroups, DeltaCommit>(
            args, at, scratch, args.key_width, args.value_width, args.value_heads);
    else
        replay_path<DeltaRule, most_state_depth / state_simdgroups, DeltaCommit>(
            args, at, scratch, args.key_width, args.value_width, args.value_heads);
}

#endif

ENTRY(delta_inputs_f32, delta_inputs, DeltaInputs, None)
ENTRY(delta_rows_f32, delta_rows, DeltaRows, StateScratch)
ENTRY(delta_chunks_f32, delta_chunks, DeltaChunks, StateScratch)
ENTRY(delta_commit_f32, delta_commit, DeltaCommit, StateScratch)

}  // namespace kapitsa

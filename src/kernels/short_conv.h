// The causal depthwise convolution in front of a recurrent layer, with silu, over chains and trees of rows.
#pragma once

#include "kernels/activations.h"
#include "kernels/segments.h"

namespace kapitsa {

constexpr uint short_conv_most_taps = 8;

/// y[row] = silu(bias + sum over taps of weight[tap] * input), where the last tap sees the row itself and
/// earlier taps see its ancestors: in the step while there are any, then in the tail that the sequence left
/// behind.
struct ShortConv {
    In<float> u;         // [rows, channels] raw inputs
    In<float> weight;    // [taps, channels]
    In<float> bias;      // [channels]; null: none
    In<float> tails;     // [sequences, taps - 1, channels] raw inputs, oldest first
    In<int> parents;     // [rows]
    In<uint> sequences;  // [rows]
    Out<float> y;        // [rows, channels]
    uint rows, channels, taps;
};
GRID(ShortConv, args.rows, parts_of(args.channels, 256), 1, 256)

/// Moves the tails of sequences on, over the rows of their paths.
struct ShortConvCommit {
    In<float> u;           // [.., channels] raw inputs
    In<uint> path_rows;    // rows of u
    In<CommitPath> paths;  // [count]
    Out<float> tails;      // [sequences, taps - 1, channels]
    uint count, channels, taps;
};
GRID(ShortConvCommit, args.count, parts_of(args.channels, 256), 1, 256)

#ifdef KERNEL_BODIES

BODY void short_conv(Args<ShortConv> args, Position at, Shared<None>) {
    const uint channel = at.group.y * 256 + at.index, row = at.group.x;
    if (channel >= args.channels) return;
    const In<float> tail = args.tails + ulong(args.sequences[row]) * (args.taps - 1) * args.channels;
    // From the last tap, which sees the row, back to the oldest; then the sum is taken from the oldest on.
    float inputs[short_conv_most_taps];
    int from = int(row);
    uint tail_left = args.taps - 1;
    for (uint tap = args.taps; tap-- > 0;) {
        if (from != no_row) {
            inputs[tap] = args.u[ulong(from) * args.channels + channel];
            from = args.parents[from];
        } else {
            --tail_left;
            inputs[tap] = tail[tail_left * args.channels + channel];
        }
    }
    float total = args.bias ? args.bias[channel] : 0.0f;
    for (uint tap = 0; tap < args.taps; ++tap)
        total = fma(args.weight[tap * args.channels + channel], inputs[tap], total);
    args.y[ulong(row) * args.channels + channel] = silu(total);
}

/// The new tail is the last taps - 1 of (old tail, rows of the path); places move towards the front only, so
/// they can be filled in order.
BODY void short_conv_commit(Args<ShortConvCommit> args, Position at, Shared<None>) {
    const uint channel = at.group.y * 256 + at.index, kept = args.taps - 1;
    if (channel >= args.channels) return;
    const CommitPath path = args.paths[at.group.x];
    const Out<float> tail = args.tails + ulong(path.sequence) * kept * args.channels + channel;
    for (uint i = 0; i < kept; ++i) {
        const uint from = i + path.rows;  // in the tail followed by the rows
        tail[i * args.channels] =
            from < kept ? tail[from * args.channels]
                        : args.u[ulong(args.path_rows[path.first + from - kept]) * args.channels + channel];
    }
}

#endif

ENTRY(short_conv_f32, short_conv, ShortConv, None)
ENTRY(short_conv_commit_f32, short_conv_commit, ShortConvCommit, None)

}  // namespace kapitsa

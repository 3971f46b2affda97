// The causal depthwise convolution in front of a recurrent layer, with silu, over chains and trees of rows.
#pragma once

#include "kernels/segments.h"

namespace kapitsa {

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

/// Moves the tails of sequences on, over the rows of their paths.
struct ShortConvCommit {
    In<float> u;           // [.., channels] raw inputs
    In<uint> path_rows;    // rows of u
    In<CommitPath> paths;  // [count]
    Out<float> tails;      // [sequences, taps - 1, channels]
    uint count, channels, taps;
};

ENTRY(short_conv_f32, ShortConv)
ENTRY(short_conv_commit_f32, ShortConvCommit)

}  // namespace kapitsa

// Embeddings of a row's last few tokens together: their hashes pick rows of a large table, of which a gate
// and a convolution over time make what is added to the stream.
#pragma once

#include "kernels/multiply.h"
#include "kernels/segments.h"

namespace kapitsa {

using ulong = std::uint64_t;  // as the dialect would call it; hashes alone need it

/// Rows of the table by the row's own token and the `order` - 1 before it, along its ancestors and then in
/// the sequence's tail. The hash of n tokens is the exclusive or of token * multiplier, the own token with
/// the first; heads (n - 2) * heads / (order - 1) and on take that of n tokens, modulo their size. Tokens
/// before the beginning count as `reset`; behind a `reset` (the own token aside) all earlier ones do as well.
struct NgramRows {
    In<int> tokens;         // [rows]
    In<int> parents;        // [rows]
    In<uint> sequences;     // [rows]
    In<float> tails;        // [sequences, order - 1] marks, oldest first
    In<ulong> multipliers;  // [order]
    In<ulong> sizes;        // [heads]
    In<ulong> offsets;      // [heads] where a head's part of the table begins
    Out<float> marks;       // [rows] the token + 1, exact up to 2^24: what tails are made of; 0 is no token
    Out<uint> picked;       // [rows, heads]
    uint rows, order, heads;
    int reset;
};

/// Rows of a table that lies in parts of `part_rows` rows each. y may be read as [rows / picks, picks *
/// columns].
template <typename T>
struct Lookup {
    In<typename MultiplyDense<T>::Part> parts;  // nothing but the weights is read
    In<uint> picked;                            // [rows]
    Out<float> y;                               // [rows, columns]
    uint rows, columns, part_rows;
};
template <typename Scale>
struct LookupAffine {
    In<typename MultiplyAffine<Scale>::Part> parts;  // nothing but codes, scales and biases is read
    In<uint> picked;
    Out<float> y;
    uint rows, columns, part_rows, group, bits;
};

/// y = value * sigmoid(s), a stream at a time, with a = <key, query> / sqrt(width) and
/// s = sign(a) sqrt(max(|a|, 1e-6)), 0 where a is.
struct GateByMatch {
    In<float> key;    // [rows, streams, width]
    In<float> query;  // [rows, streams, width]
    In<float> value;  // [rows, width]
    Out<float> y;     // [rows, streams, width]
    uint rows, streams, width;
};

/// y += direct + silu(sum over taps of weight[tap] * input), where the last tap sees the row itself and each
/// earlier one what stands `dilation` rows further back: ancestors in the step, then the sequence's tail.
/// short_conv_commit_f32 with (taps - 1) * dilation + 1 taps moves the tails on.
struct DilatedConv {
    In<float> u;       // [rows, channels]
    In<float> weight;  // [taps, channels]
    In<float> direct;  // [rows, channels]
    In<float> tails;   // [sequences, (taps - 1) * dilation, channels] inputs, oldest first
    In<int> parents;
    In<uint> sequences;
    Out<float> y;  // [rows, channels]
    uint rows, channels, taps, dilation;
};
constexpr uint dilated_conv_most_taps = 8;

ENTRY(ngram_rows, NgramRows)
ENTRY(lookup_f32, Lookup<float>)
ENTRY(lookup_f16, Lookup<half>)
ENTRY(lookup_bf16, Lookup<bfloat>)
ENTRY(lookup_affine_f32, LookupAffine<float>)
ENTRY(lookup_affine_f16, LookupAffine<half>)
ENTRY(lookup_affine_bf16, LookupAffine<bfloat>)
ENTRY(gate_by_match_f32, GateByMatch)
ENTRY(dilated_conv_f32, DilatedConv)

}  // namespace kapitsa

// Embeddings of a row's last few tokens together: their hashes pick rows of a large table, of which a gate
// and a convolution over time make what is added to the stream.
#pragma once

#include "kernels/activations.h"
#include "kernels/affine_codes.h"
#include "kernels/group_sum.h"
#include "kernels/multiply.h"
#include "kernels/segments.h"

namespace kapitsa {

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
GRID(NgramRows, parts_of(args.rows, 32), 1, 1, 32)

/// Rows of a table that lies in parts of `part_rows` rows each. y may be read as [rows / picks, picks *
/// columns].
template <typename T>
struct Lookup {
    In<typename MultiplyDense<T>::Part> parts;  // nothing but the weights is read
    In<uint> picked;                            // [rows]
    Out<float> y;                               // [rows, columns]
    uint rows, columns, part_rows;
};
GRID_OF_ANY(T, Lookup<T>, args.rows, parts_of(args.columns, 256), 1, 256)
template <typename Scale>
struct LookupAffine {
    In<typename MultiplyAffine<Scale>::Part> parts;  // nothing but codes, scales and biases is read
    In<uint> picked;
    Out<float> y;
    uint rows, columns, part_rows, group, bits;
};
GRID_OF_ANY(Scale, LookupAffine<Scale>, args.rows, parts_of(args.columns, 256), 1, 256)

/// y = value * sigmoid(s), a stream at a time, with a = <key, query> / sqrt(width) and
/// s = sign(a) sqrt(max(|a|, 1e-6)), 0 where a is.
struct GateByMatch {
    In<float> key;    // [rows, streams, width]
    In<float> query;  // [rows, streams, width]
    In<float> value;  // [rows, width]
    Out<float> y;     // [rows, streams, width]
    uint rows, streams, width;
};
GRID(GateByMatch, args.rows, args.streams, 1, 256)

constexpr uint dilated_conv_most_taps = 8;

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
GRID(DilatedConv, args.rows, parts_of(args.channels, 256), 1, 256)

#ifdef KERNEL_BODIES

/// A thread has a row.
BODY void pick_ngrams(Args<NgramRows> args, Position at, Shared<None>) {
    const uint row = at.group.x * 32 + at.lane;
    if (row >= args.rows) return;
    const uint kept = args.order - 1, of_each = args.heads / kept;
    const In<float> tail = args.tails + ulong(args.sequences[row]) * kept;
    args.marks[row] = float(args.tokens[row]) + 1.0f;
    ulong hash = ulong(args.tokens[row]) * args.multipliers[0];
    int from = args.parents[row];
    uint tail_left = kept;
    bool cut = false;  // everything from here on back counts as `reset`
    for (uint n = 1; n <= kept; ++n) {
        int token = args.reset;
        if (from != no_row) {
            token = args.tokens[from];
            from = args.parents[from];
        } else {
            --tail_left;
            if (tail[tail_left] > 0.0f) token = int(tail[tail_left] - 1.0f);
        }
        cut = cut || token == args.reset;
        hash ^= ulong(cut ? args.reset : token) * args.multipliers[n];
        for (uint head = (n - 1) * of_each; head < n * of_each; ++head)
            args.picked[ulong(row) * args.heads + head] = uint(hash % args.sizes[head] + args.offsets[head]);
    }
}

template <typename T>
BODY void lookup(Args<Lookup<T>> args, Position at, Shared<None>) {
    const uint row = at.group.x, i = at.group.y * 256 + at.index, picked = args.picked[row];
    if (i < args.columns)
        args.y[ulong(row) * args.columns + i] = float(
            args.parts[picked / args.part_rows].weight[ulong(picked % args.part_rows) * args.columns + i]);
}

template <typename Scale>
BODY void lookup_affine(Args<LookupAffine<Scale>> args, Position at, Shared<None>) {
    const uint row = at.group.x, i = at.group.y * 256 + at.index, picked = args.picked[row];
    if (i >= args.columns) return;
    const typename MultiplyAffine<Scale>::Part part = args.parts[picked / args.part_rows];
    args.y[ulong(row) * args.columns + i] =
        affine_value(part.codes, part.scales, part.biases, picked % args.part_rows, args.columns, args.group,
                     args.bits, i);
}

struct GateByMatchScratch {
    GroupWords sum;
};

BODY void gate_by_match(Args<GateByMatch> args, Position at, Shared<GateByMatchScratch> scratch) {
    const uint threads = at.simdgroups * 32, width = args.width;
    const ulong begin = (ulong(at.group.x) * args.streams + at.group.y) * width;
    float product = 0;
    for (uint i = at.index; i < width; i += threads)
        product = fma(args.key[begin + i], args.query[begin + i], product);
    const float match = group_sum(product, at, scratch.sum) / sqrt(float(width));
    const float root = sqrt(max(abs(match), 1e-6f));
    const float gate = sigmoid(match == 0.0f ? 0.0f : match < 0.0f ? -root : match != match ? match : root);
    for (uint i = at.index; i < width; i += threads)
        args.y[begin + i] = gate * args.value[ulong(at.group.x) * width + i];
}

BODY void dilated_conv(Args<DilatedConv> args, Position at, Shared<None>) {
    const uint channel = at.group.y * 256 + at.index, row = at.group.x;
    if (channel >= args.channels) return;
    const uint kept = (args.taps - 1) * args.dilation;
    const In<float> tail = args.tails + ulong(args.sequences[row]) * kept * args.channels + channel;
    float inputs[dilated_conv_most_taps];
    int from = int(row);
    uint tail_left = kept;
    for (uint back = 0; back <= kept; ++back) {
        float input;
        if (from != no_row) {
            input = args.u[ulong(from) * args.channels + channel];
            from = args.parents[from];
        } else {
            --tail_left;
            input = tail[tail_left * args.channels];
        }
        if (back % args.dilation == 0) inputs[args.taps - 1 - back / args.dilation] = input;
    }
    float total = 0;
    for (uint tap = 0; tap < args.taps; ++tap)
        total = fma(args.weight[tap * args.channels + channel], inputs[tap], total);
    const ulong place = ulong(row) * args.channels + channel;
    args.y[place] += args.direct[place] + silu(total);
}

#endif

ENTRY(ngram_rows, pick_ngrams, NgramRows, None)
ENTRY(lookup_f32, lookup<float>, Lookup<float>, None)
ENTRY(lookup_f16, lookup<half>, Lookup<half>, None)
ENTRY(lookup_bf16, lookup<bfloat>, Lookup<bfloat>, None)
ENTRY(lookup_affine_f32, lookup_affine<float>, LookupAffine<float>, None)
ENTRY(lookup_affine_f16, lookup_affine<half>, LookupAffine<half>, None)
ENTRY(lookup_affine_bf16, lookup_affine<bfloat>, LookupAffine<bfloat>, None)
ENTRY(gate_by_match_f32, gate_by_match, GateByMatch, GateByMatchScratch)
ENTRY(dilated_conv_f32, dilated_conv, DilatedConv, None)

}  // namespace kapitsa

// Residual streams side by side: a row holds several streams of one width, one behind the other. What a layer
// reads is a gated mean of their norms; what it says is added to each of them with a weight of its own.
// Source: "Hyper-Connections", Zhu et al., 2024; the low-rank form of the reference implementations.
#pragma once

#include "kernels/activations.h"
#include "kernels/dialect/dialect.h"
#include "kernels/group_sum.h"

namespace kapitsa {

/// y = x / rms(x) * weight, a group of columns at a time.
struct GroupedRmsNorm {
    In<float> x;       // [rows, groups, width]
    In<float> weight;  // [groups, width]
    Out<float> y;      // [rows, groups, width]
    uint rows, groups, width;
    float epsilon;
};
GRID(GroupedRmsNorm, args.rows, args.groups, 1, 256)

/// y = silu(scale * x).
struct ScaledSilu {
    In<float> x;   // [elements]
    Out<float> y;  // [elements]
    uint elements;
    float scale;
};
GRID(ScaledSilu, parts_of(args.elements, 256), 1, 1, 256)

/// y = the mean over the streams of sigmoid(gate) * x.
struct MixStreams {
    In<float> x;     // [rows, streams, width]
    In<float> gate;  // [rows, streams, width]
    Out<float> y;    // [rows, width]
    uint rows, streams, width;
};
GRID(MixStreams, args.rows, parts_of(args.width, 256), 1, 256)

/// x of each stream += y * 2 sigmoid(scale * logit of the stream), or += y where there are no logits.
struct InjectStreams {
    In<float> y;       // [rows, width]
    In<float> logits;  // [rows, streams], or null
    Out<float> x;      // [rows, streams, width]
    uint rows, streams, width;
    float scale;
};
GRID(InjectStreams, args.rows, parts_of(args.streams* args.width, 256), 1, 256)

#ifdef KERNEL_BODIES

struct GroupedNormScratch {
    GroupWords sum;
};

BODY void grouped_rms_norm(Args<GroupedRmsNorm> args, Position at, Shared<GroupedNormScratch> scratch) {
    const uint threads = at.simdgroups * 32;
    const ulong begin = (ulong(at.group.x) * args.groups + at.group.y) * args.width;
    const In<float> x = args.x + begin, weight = args.weight + at.group.y * args.width;
    float squares = 0;
    for (uint i = at.index; i < args.width; i += threads) squares = fma(x[i], x[i], squares);
    const float scale = rsqrt(group_sum(squares, at, scratch.sum) / float(args.width) + args.epsilon);
    for (uint i = at.index; i < args.width; i += threads) args.y[begin + i] = x[i] * scale * weight[i];
}

BODY void scaled_silu(Args<ScaledSilu> args, Position at, Shared<None>) {
    const uint i = at.group.x * 256 + at.index;
    if (i < args.elements) args.y[i] = silu(args.scale * args.x[i]);
}

BODY void mix_streams(Args<MixStreams> args, Position at, Shared<None>) {
    const uint i = at.group.y * 256 + at.index;
    if (i >= args.width) return;
    const ulong row = at.group.x;
    float total = 0;
    for (uint s = 0; s < args.streams; ++s) {
        const ulong from = (row * args.streams + s) * args.width + i;
        total = fma(sigmoid(args.gate[from]), args.x[from], total);
    }
    args.y[row * args.width + i] = total * (1.0f / float(args.streams));
}

BODY void inject_streams(Args<InjectStreams> args, Position at, Shared<None>) {
    const uint i = at.group.y * 256 + at.index, row_elements = args.streams * args.width;
    if (i >= row_elements) return;
    const ulong row = at.group.x;
    const float weight =
        args.logits ? 2.0f * sigmoid(args.scale * args.logits[row * args.streams + i / args.width]) : 1.0f;
    const Out<float> x = args.x + row * row_elements;
    x[i] = fma(weight, args.y[row * args.width + i % args.width], x[i]);
}

#endif

ENTRY(grouped_rms_norm_f32, grouped_rms_norm, GroupedRmsNorm, GroupedNormScratch)
ENTRY(scaled_silu_f32, scaled_silu, ScaledSilu, None)
ENTRY(mix_streams_f32, mix_streams, MixStreams, None)
ENTRY(inject_streams_f32, inject_streams, InjectStreams, None)

}  // namespace kapitsa

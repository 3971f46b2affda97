// y = x / rms(x) * weight, for the rows of a list, or for all.
#pragma once

#include "kernels/activations.h"
#include "kernels/dialect/dialect.h"
#include "kernels/group_sum.h"

namespace kapitsa {

constexpr uint norm_threads = 256;  // of a group, which has a row; of a head, 32

struct RmsNorm {
    In<float> x;       // [.., columns]
    In<float> weight;  // [columns]
    In<uint> picked;   // [rows] which rows of x; null: row i of x
    Out<float> y;      // [rows, columns]
    uint rows, columns;
    float epsilon;
};
GRID(RmsNorm, args.rows, 1, 1, norm_threads)

/// y = x / rms(x) * weight * silu(gate) (or sigmoid(gate)), a head at a time: norm before gate.
struct GatedRmsNorm {
    In<float> x;       // [rows, heads, width]
    In<float> gate;    // [rows, heads, width]
    In<float> weight;  // [width], one for all heads
    Out<float> y;      // [rows, heads, width]
    uint rows, heads, width;
    float epsilon;
    uint sigmoid;  // 1: in place of silu
};
GRID(GatedRmsNorm, args.rows, args.heads, 1, 32)

/// y = v / rms(v) * weight of v = x * silu(gate), a group of columns at a time: gate before norm.
struct NormOfGated {
    In<float> x;       // [rows, groups, width]
    In<float> gate;    // [rows, groups, width]
    In<float> weight;  // [groups, width]
    Out<float> y;      // [rows, groups, width]
    uint rows, groups, width;
    float epsilon;
};
GRID(NormOfGated, args.rows, args.groups, 1, norm_threads)

#ifdef KERNEL_BODIES

struct NormScratch {
    GroupWords sum;
};

BODY void rms_norm(Args<RmsNorm> args, Position at, Shared<NormScratch> scratch) {
    const uint row = at.group.x, threads = at.simdgroups * 32;
    const In<float> x = args.x + ulong(args.picked ? args.picked[row] : row) * args.columns;
    const Out<float> y = args.y + ulong(row) * args.columns;
    float squares = 0;
    for (uint i = at.index; i < args.columns; i += threads) squares = fma(x[i], x[i], squares);
    const float scale = rsqrt(group_sum(squares, at, scratch.sum) / float(args.columns) + args.epsilon);
    for (uint i = at.index; i < args.columns; i += threads) y[i] = x[i] * scale * args.weight[i];
}

BODY void gated_rms_norm(Args<GatedRmsNorm> args, Position at, Shared<None>) {
    const ulong begin = (ulong(at.group.x) * args.heads + at.group.y) * args.width;
    const In<float> x = args.x + begin, gate = args.gate + begin;
    float squares = 0;
    for (uint i = at.lane; i < args.width; i += 32) squares = fma(x[i], x[i], squares);
    const float scale = rsqrt(simd_sum(squares) / float(args.width) + args.epsilon);
    for (uint i = at.lane; i < args.width; i += 32) {
        const float normed = x[i] * scale * args.weight[i];
        args.y[begin + i] = normed * (args.sigmoid ? sigmoid(gate[i]) : silu(gate[i]));
    }
}

BODY void norm_of_gated(Args<NormOfGated> args, Position at, Shared<NormScratch> scratch) {
    const uint threads = at.simdgroups * 32;
    const ulong begin = (ulong(at.group.x) * args.groups + at.group.y) * args.width;
    const In<float> x = args.x + begin, gate = args.gate + begin,
                    weight = args.weight + at.group.y * args.width;
    float squares = 0;
    for (uint i = at.index; i < args.width; i += threads) {
        const float v = x[i] * silu(gate[i]);
        squares = fma(v, v, squares);
    }
    const float scale = rsqrt(group_sum(squares, at, scratch.sum) / float(args.width) + args.epsilon);
    for (uint i = at.index; i < args.width; i += threads)
        args.y[begin + i] = x[i] * silu(gate[i]) * scale * weight[i];
}

#endif

ENTRY(rms_norm_f32, rms_norm, RmsNorm, NormScratch)
ENTRY(gated_rms_norm_f32, gated_rms_norm, GatedRmsNorm, None)
ENTRY(norm_of_gated_f32, norm_of_gated, NormOfGated, NormScratch)

}  // namespace kapitsa

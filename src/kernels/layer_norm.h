// y = (x - mean(x)) / deviation(x) * weight + bias, row by row.
#pragma once

#include "kernels/dialect/dialect.h"
#include "kernels/group_sum.h"

namespace kapitsa {

struct LayerNorm {
    In<float> x;       // [rows, columns]
    In<float> weight;  // [columns]
    In<float> bias;    // [columns]
    Out<float> y;      // [rows, columns]
    uint rows, columns;
    float epsilon;  // added to the variance
};
GRID(LayerNorm, args.rows, 1, 1, 256)

#ifdef KERNEL_BODIES

struct LayerNormScratch {
    GroupWords sum;
};

BODY void layer_norm(Args<LayerNorm> args, Position at, Shared<LayerNormScratch> scratch) {
    const uint threads = at.simdgroups * 32;
    const In<float> x = args.x + ulong(at.group.x) * args.columns;
    const Out<float> y = args.y + ulong(at.group.x) * args.columns;
    float total = 0;
    for (uint i = at.index; i < args.columns; i += threads) total += x[i];
    const float mean = group_sum(total, at, scratch.sum) / float(args.columns);
    // Of what is left of x: the mean of squares minus the square of the mean would cancel.
    float squares = 0;
    for (uint i = at.index; i < args.columns; i += threads) squares = fma(x[i] - mean, x[i] - mean, squares);
    const float scale = rsqrt(group_sum(squares, at, scratch.sum) / float(args.columns) + args.epsilon);
    for (uint i = at.index; i < args.columns; i += threads)
        y[i] = fma((x[i] - mean) * scale, args.weight[i], args.bias[i]);
}

#endif

ENTRY(layer_norm_f32, layer_norm, LayerNorm, LayerNormScratch)

}  // namespace kapitsa

// y = (x - mean(x)) / deviation(x) * weight + bias, row by row.
#pragma once

#include "kernels/dialect/host.h"

namespace kapitsa {

struct LayerNorm {
    In<float> x;       // [rows, columns]
    In<float> weight;  // [columns]
    In<float> bias;    // [columns]
    Out<float> y;      // [rows, columns]
    uint rows, columns;
    float epsilon;  // added to the variance
};

ENTRY(layer_norm_f32, LayerNorm)

}  // namespace kapitsa

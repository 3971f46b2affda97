// Residual streams side by side: a row holds several streams of one width, one behind the other. What a layer
// reads is a gated mean of their norms; what it says is added to each of them with a weight of its own.
// Source: "Hyper-Connections", Zhu et al., 2024; the low-rank form of the reference implementations.
#pragma once

#include "kernels/dialect/host.h"

namespace kapitsa {

/// y = x / rms(x) * weight, a group of columns at a time.
struct GroupedRmsNorm {
    In<float> x;       // [rows, groups, width]
    In<float> weight;  // [groups, width]
    Out<float> y;      // [rows, groups, width]
    uint rows, groups, width;
    float epsilon;
};

/// y = silu(scale * x).
struct ScaledSilu {
    In<float> x;   // [elements]
    Out<float> y;  // [elements]
    uint elements;
    float scale;
};

/// y = the mean over the streams of sigmoid(gate) * x.
struct MixStreams {
    In<float> x;     // [rows, streams, width]
    In<float> gate;  // [rows, streams, width]
    Out<float> y;    // [rows, width]
    uint rows, streams, width;
};

/// x of each stream += y * 2 sigmoid(scale * logit of the stream), or += y where there are no logits.
struct InjectStreams {
    In<float> y;       // [rows, width]
    In<float> logits;  // [rows, streams], or null
    Out<float> x;      // [rows, streams, width]
    uint rows, streams, width;
    float scale;
};

ENTRY(grouped_rms_norm_f32, GroupedRmsNorm)
ENTRY(scaled_silu_f32, ScaledSilu)
ENTRY(mix_streams_f32, MixStreams)
ENTRY(inject_streams_f32, InjectStreams)

}  // namespace kapitsa

// Attention of each row over tokens of its own choice: kernels/choose_tokens.h.
#pragma once

#include "kernels/dialect/host.h"

namespace kapitsa {

/// o = softmax(q k^T * scale) v over the chosen tokens, times sigmoid(gate).
struct AttendChosen {
    In<float> q;             // [rows, heads, width], rotated
    In<float> gate;          // [rows, heads, gate_stride]: the first `width` of it; null: no gate
    In<float> keys, values;  // the pages of this layer
    In<uint> chosen;         // [rows, most] slots
    In<uint> counts;         // [rows] at least 1
    Out<float> o;            // [rows, heads, width]
    uint rows, heads, kv_heads, width, gate_stride, most;
    float scale;
};

ENTRY(attend_chosen_f32, AttendChosen)

}  // namespace kapitsa

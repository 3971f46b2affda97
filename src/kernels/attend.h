// Attention over paged keys and values, for chains and trees of rows, grouped query heads, with an output
// gate. A page holds page_tokens = 16 tokens of one layer: keys as [kv_heads, width, 16], values as
// [kv_heads, 16, width].
#pragma once

#include "kernels/segments.h"

namespace kapitsa {

constexpr uint attend_page_tokens = 16;

/// A row's position has three coordinates: time, and the row and column of a picture. In text all are equal.
constexpr uint position_axes = 3;

/// cos and sin of each row's rotation angles: position * theta^(-2i/rotary), in f32 as the references have
/// it.
struct RopeTable {
    In<uint> positions;     // [rows, position_axes]
    In<uint> axes;          // [rotary / 2] which coordinate a frequency takes; null: the first
    In<float> frequencies;  // [rotary / 2]
    Out<float> cosines;     // [rows, rotary / 2]
    Out<float> sines;       // [rows, rotary / 2]
    uint rows, half;        // half = rotary / 2
};

/// Norms and rotates queries and keys, in the order that `rotates_first` says, and puts keys and values into
/// the cache. The first 2 * half dimensions of a head rotate, i with i + half; none where half is 0.
struct AttendInputs {
    In<float> q;               // [rows, heads, q_stride]: the query is the first `width` of a head's stride
    In<float> k, v;            // [rows, kv_heads, width]
    In<float> q_norm, k_norm;  // [width]; null: no norm. Of queries see q_norm_stride
    In<float> cosines, sines;  // [rows, half]
    In<uint> slots;            // [rows] where the token goes: page * 16 + place in the page
    Out<float> rotated;        // [rows, heads, width]
    Out<float> keys, values;   // the pages of this layer
    uint rows, heads, kv_heads, width, half, q_stride;
    uint q_norm_stride;  // from one query head's norm to the next one's; 0: one for all
    uint rotates_first;  // the norm is that of the rotated head
    float epsilon;
};

/// o = softmax(q k^T * scale) v, times sigmoid(gate). A row sees what is committed, then its ancestors, then
/// itself; of all these the last `window`. Where `whole` is set it sees all rows of its segment. Keys are
/// taken in blocks of 16 by their place in the row's own history, so chains and trees sum alike. A sink is a
/// score without a value: it takes its part of the weight.
struct Attend {
    In<float> q;               // [rows, heads, width], rotated
    In<float> gate;            // [rows, heads, gate_stride]: the first `width` of it; null: no gate
    In<float> sinks;           // [heads], not scaled; null: none
    In<float> keys, values;    // the pages of this layer
    In<uint> pages;            // page tables, one behind the other
    In<int> parents;           // [rows]; null where all segments are chains
    In<SegmentRows> segments;  // [count]
    Out<float> o;              // [rows, heads, width]
    uint count, heads, kv_heads, width, gate_stride;
    uint tiles;   // the sum over segments of their rows / attend_tile_rows, rounded up
    uint window;  // the most tokens that a row sees, itself among them; 0: all
    uint whole;   // rows see those behind them too; for segments that are chains
    float scale;
};
constexpr uint attend_tile_rows = 8;

/// Moves the keys and values of an accepted path together, in the order of the list.
struct MoveTokens {
    In<uint> from, to;  // [count] slots
    Out<float> keys, values;
    uint count, kv_heads, width;
};

ENTRY(rope_table_f32, RopeTable)
ENTRY(attend_inputs_f32, AttendInputs)
ENTRY(attend_f32, Attend)
ENTRY(move_tokens_f32, MoveTokens)

}  // namespace kapitsa

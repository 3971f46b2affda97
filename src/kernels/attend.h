// Attention over paged keys and values, for chains and trees of rows, grouped query heads, with an output
// gate. A page holds page_tokens = 16 tokens of one layer: keys as [kv_heads, width, 16], values as
// [kv_heads, 16, width].
#pragma once

#include "kernels/attend_parts.h"
#include "kernels/segments.h"

namespace kapitsa {

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
GRID(RopeTable, parts_of(args.rows* args.half, 256), 1, 1, 256)

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
GRID(AttendInputs, args.rows, args.heads + args.kv_heads, 1, 32)

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
GRID(Attend, args.tiles* attend_tile_rows, args.heads, 1, attend_simdgroups * 32)

/// Moves the keys and values of an accepted path together, in the order of the list.
struct MoveTokens {
    In<uint> from, to;  // [count] slots
    Out<float> keys, values;
    uint count, kv_heads, width;
};
GRID(MoveTokens, args.kv_heads, 1, 1, 256)

#ifdef KERNEL_BODIES

BODY void rope_table(Args<RopeTable> args, Position at, Shared<None>) {
    const uint place = at.group.x * 256 + at.index;
    if (place >= args.rows * args.half) return;
    const uint row = place / args.half, i = place % args.half, axis = args.axes ? args.axes[i] : 0;
    const float angle = float(args.positions[row * position_axes + axis]) * args.frequencies[i];
    args.cosines[place] = cos(angle);
    args.sines[place] = sin(angle);
}

struct AttendInputsScratch {
    float head[attend_most_width];
};

BODY void norm_head(Args<AttendInputs> args, In<float> weight, uint lane,
                    Shared<AttendInputsScratch> scratch) {
    float squares = 0;
    for (uint i = lane; i < args.width; i += 32) squares = fma(scratch.head[i], scratch.head[i], squares);
    const float scale = rsqrt(simd_sum(squares) / float(args.width) + args.epsilon);
    for (uint i = lane; i < args.width; i += 32) scratch.head[i] = scratch.head[i] * scale * weight[i];
    simd_barrier();
}

/// A simdgroup has a query head, or a key/value head.
BODY void attend_inputs(Args<AttendInputs> args, Position at, Shared<AttendInputsScratch> scratch) {
    const uint row = at.group.x, lane = at.lane, half = args.half, width = args.width;
    const bool is_query = at.group.y < args.heads;
    const uint head = is_query ? at.group.y : at.group.y - args.heads;
    const In<float> x = is_query ? args.q + (ulong(row) * args.heads + head) * args.q_stride
                                 : args.k + (ulong(row) * args.kv_heads + head) * width;
    const In<float> weight = !is_query     ? args.k_norm
                             : args.q_norm ? args.q_norm + head * args.q_norm_stride
                                           : args.q_norm;
    for (uint i = lane; i < width; i += 32) scratch.head[i] = x[i];
    simd_barrier();
    if (weight && args.rotates_first == 0) norm_head(args, weight, lane, scratch);
    for (uint i = lane; i < half; i += 32) {
        const float a = scratch.head[i], b = scratch.head[i + half];
        const float cosine = args.cosines[ulong(row) * half + i], sine = args.sines[ulong(row) * half + i];
        scratch.head[i] = a * cosine - b * sine;
        scratch.head[i + half] = b * cosine + a * sine;
    }
    simd_barrier();
    if (weight && args.rotates_first != 0) norm_head(args, weight, lane, scratch);
    if (is_query) {
        for (uint i = lane; i < width; i += 32)
            args.rotated[(ulong(row) * args.heads + head) * width + i] = scratch.head[i];
        return;
    }
    const uint slot = args.slots[row], place = slot % attend_page_tokens;
    const ulong to = (ulong(slot / attend_page_tokens) * args.kv_heads + head) * width * attend_page_tokens;
    const In<float> v = args.v + (ulong(row) * args.kv_heads + head) * width;
    for (uint i = lane; i < width; i += 32) {
        args.keys[to + i * attend_page_tokens + place] = scratch.head[i];
        args.values[to + place * width + i] = v[i];
    }
}

/// Where a token of a row's history lies: what is committed by the page table, and behind it the row's
/// ancestors.
struct HistorySlots {
    In<uint> pages;  // of the segment
    uint committed, first_row, depth;
    bool is_draft;
    BODY uint slot(uint token, Shared<AttendScratch> scratch) const {
        uint place = token;
        if (is_draft && token >= committed)
            place = committed + scratch.path[depth - 1 - (token - committed)] - first_row;
        return pages[place / attend_page_tokens] * attend_page_tokens + place % attend_page_tokens;
    }
};

BODY void attend(Args<Attend> args, Position at, Shared<AttendScratch> scratch) {
    // Which segment's tile this is, and which row of it.
    uint tile = at.group.x / attend_tile_rows, s = 0;
    while (s < args.count && tile * attend_tile_rows >= args.segments[s].rows) {
        tile -= (args.segments[s].rows + attend_tile_rows - 1) / attend_tile_rows;
        ++s;
    }
    if (s == args.count) return;
    const SegmentRows segment = args.segments[s];
    const uint of_segment = tile * attend_tile_rows + at.group.x % attend_tile_rows;
    if (of_segment >= segment.rows) return;
    const uint row = segment.first_row + of_segment, head = at.group.y;
    const bool is_draft = segment.commit == 0;
    if (is_draft) find_path(args.parents, row, no_row, at, scratch);
    const uint depth = is_draft ? scratch.depth : 0;
    const uint seen = is_draft ? depth : args.whole != 0 ? segment.rows : of_segment + 1;
    const uint history = segment.committed + seen;
    const ulong of_row = ulong(row) * args.heads + head;

    AttendHead of_head;
    of_head.q = args.q + of_row * args.width;
    of_head.gate = args.gate ? args.gate + of_row * args.gate_stride : args.gate;
    of_head.keys = args.keys;
    of_head.values = args.values;
    of_head.o = args.o + of_row * args.width;
    of_head.kv_heads = args.kv_heads;
    of_head.kv_head = head / (args.heads / args.kv_heads);
    of_head.width = args.width;
    of_head.begin = args.window != 0 && history > args.window ? history - args.window : 0;
    of_head.end = history;
    of_head.has_sink = args.sinks ? true : false;
    of_head.sink = args.sinks ? args.sinks[head] : 0.0f;
    of_head.scale = args.scale;
    attend_head(
        of_head,
        HistorySlots{args.pages + segment.first_page, segment.committed, segment.first_row, depth, is_draft},
        at, scratch);
}

/// A path's moves go towards the front, in order; a thread keeps to its dimensions.
BODY void move_tokens(Args<MoveTokens> args, Position at, Shared<None>) {
    constexpr uint page = attend_page_tokens;
    for (uint m = 0; m < args.count; ++m) {
        const uint from = args.from[m], to = args.to[m];
        const ulong source = (ulong(from / page) * args.kv_heads + at.group.x) * args.width * page,
                    target = (ulong(to / page) * args.kv_heads + at.group.x) * args.width * page;
        for (uint i = at.index; i < args.width; i += at.simdgroups * 32) {
            args.keys[target + i * page + to % page] = args.keys[source + i * page + from % page];
            args.values[target + to % page * args.width + i] =
                args.values[source + from % page * args.width + i];
        }
    }
}

#endif

ENTRY(rope_table_f32, rope_table, RopeTable, None)
ENTRY(attend_inputs_f32, attend_inputs, AttendInputs, AttendInputsScratch)
ENTRY(attend_f32, attend, Attend, AttendScratch)
ENTRY(move_tokens_f32, move_tokens, MoveTokens, None)

}  // namespace kapitsa

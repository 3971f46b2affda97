// Attention of each row over tokens of its own choice: kernels/choose_tokens.h.
#pragma once

#include "kernels/attend_parts.h"

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
GRID(AttendChosen, args.rows, args.heads, 1, attend_simdgroups * 32)

#ifdef KERNEL_BODIES

struct ChosenSlots {
    In<uint> chosen;
    BODY uint slot(uint token, Shared<AttendScratch>) const { return chosen[token]; }
};

BODY void attend_chosen(Args<AttendChosen> args, Position at, Shared<AttendScratch> scratch) {
    const uint row = at.group.x, head = at.group.y;
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
    of_head.begin = 0;
    of_head.end = args.counts[row];
    of_head.has_sink = false;
    of_head.sink = 0;
    of_head.scale = args.scale;
    attend_head(of_head, ChosenSlots{args.chosen + ulong(row) * args.most}, at, scratch);
}

#endif

ENTRY(attend_chosen_f32, attend_chosen, AttendChosen, AttendScratch)

}  // namespace kapitsa

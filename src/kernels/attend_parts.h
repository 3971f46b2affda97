// One query head over tokens of a row's history that lie in pages (kernels/attend.h): the group's simdgroups
// take every eighth block of 16 tokens, each with a running maximum, and at the end their parts are put
// together in their order. So what a row sums, and in which order, depends on its own history alone.
#pragma once

#include "kernels/activations.h"
#include "kernels/dialect/dialect.h"

namespace kapitsa {

constexpr uint attend_page_tokens = 16;
constexpr uint attend_simdgroups = 8;    // of a group, which has a row and a head
constexpr uint attend_most_width = 256;  // of a head, on a device with groups

#ifdef KERNEL_BODIES

struct AttendScratch {
    float q[attend_most_width];
    float sums[attend_simdgroups][attend_most_width];
    float most[attend_simdgroups], weight[attend_simdgroups];
    float shares[attend_simdgroups][attend_page_tokens];  // of a block's tokens
    uint slots[attend_simdgroups][attend_page_tokens];
    uint path[64];  // of a draft row: its ancestors, the row itself first
    uint depth;
};

/// A query head, what it looks at and where its result goes.
struct AttendHead {
    In<float> q;             // [width]
    In<float> gate;          // [width]; null: none
    In<float> keys, values;  // the pages of the layer
    Out<float> o;            // [width]
    uint kv_heads, kv_head, width;
    uint begin, end;  // tokens that are seen
    bool has_sink;
    float sink, scale;
};

/// Slots: `uint slot(uint token, Shared<AttendScratch>)` says where a token of [begin, end) lies. The scratch
/// has what slot() needs already; the query comes here.
template <class Slots>
BODY void attend_head(AttendHead head, Slots slots, Position at, Shared<AttendScratch> scratch) {
    constexpr uint page = attend_page_tokens, most_parts = attend_most_width / 32;
    constexpr float lowest = -1e30f;
    const uint width = head.width, lane = at.lane, threads = at.simdgroups * 32;
    for (uint i = at.index; i < width; i += threads) scratch.q[i] = head.q[i];
    group_barrier();

    const bool sinks = head.has_sink && at.simdgroup == 0;
    float most = sinks ? head.sink : lowest, weight = sinks ? 1.0f : 0.0f;
    float sums[most_parts];
    UNROLL for (uint j = 0; j < most_parts; ++j) sums[j] = 0;
    for (uint block = head.begin / page + at.simdgroup; block * page < head.end; block += at.simdgroups) {
        // A lane has a token of the block and half of the dimensions.
        const uint token = block * page + lane % page;
        const bool visible = token < head.end && token >= head.begin;
        const uint slot = slots.slot(visible ? token : max(block * page, head.begin), scratch);
        const uint half = (width + 1) / 2, begin = lane / page * half, end = min(begin + half, width);
        const In<float> keys =
            head.keys + (ulong(slot / page) * head.kv_heads + head.kv_head) * width * page + slot % page;
        float score = 0;
        for (uint i = begin; i < end; ++i) score = fma(scratch.q[i], keys[i * page], score);
        score += simd_shuffle_xor(score, page);
        score = visible ? score * head.scale : lowest;
        const float now_most = max(most, simd_max(score));
        const float share = visible ? exp(score - now_most) : 0.0f, fade = exp(most - now_most);
        weight = weight * fade + simd_sum(lane < page ? share : 0.0f);
        most = now_most;
        UNROLL for (uint j = 0; j < most_parts; ++j) sums[j] *= fade;
        simd_barrier();  // the block before has been read
        if (lane < page) {
            scratch.shares[at.simdgroup][lane] = share;
            scratch.slots[at.simdgroup][lane] = slot;
        }
        simd_barrier();
        // Now a lane has every 32nd dimension of all tokens.
        const uint first = max(block * page, head.begin), last = min((block + 1) * page, head.end);
        for (uint t = first - block * page; t < last - block * page; ++t) {
            const float of_token = scratch.shares[at.simdgroup][t];
            const uint slot_of_token = scratch.slots[at.simdgroup][t];
            const In<float> values =
                head.values + (ulong(slot_of_token / page) * head.kv_heads + head.kv_head) * width * page +
                slot_of_token % page * width;
            UNROLL for (uint j = 0; j < most_parts; ++j) if (j * 32 + lane < width) sums[j] =
                fma(of_token, values[j * 32 + lane], sums[j]);
        }
    }
    UNROLL for (uint j = 0; j < most_parts; ++j) if (j * 32 + lane < width)
        scratch.sums[at.simdgroup][j * 32 + lane] = sums[j];
    if (lane == 0) {
        scratch.most[at.simdgroup] = most;
        scratch.weight[at.simdgroup] = weight;
    }
    group_barrier();

    float all_most = lowest, all_weight = 0;
    for (uint p = 0; p < at.simdgroups; ++p) all_most = max(all_most, scratch.most[p]);
    for (uint p = 0; p < at.simdgroups; ++p)
        all_weight += scratch.weight[p] * exp(scratch.most[p] - all_most);
    for (uint i = at.index; i < width; i += threads) {
        float o = 0;
        for (uint p = 0; p < at.simdgroups; ++p)
            o = fma(scratch.sums[p][i], exp(scratch.most[p] - all_most), o);
        o /= all_weight;
        head.o[i] = head.gate ? o * sigmoid(head.gate[i]) : o;
    }
}

/// The row's ancestors in the step, the row itself first, for all threads to see.
BODY void find_path(In<int> parents, uint row, int none, Position at, Shared<AttendScratch> scratch) {
    if (at.index == 0) {
        uint depth = 0;
        for (int from = int(row); from != none; from = parents[from]) scratch.path[depth++] = uint(from);
        scratch.depth = depth;
    }
    group_barrier();
}

#endif

}  // namespace kapitsa

// The tokens that each row attends to where attention is sparse. An indexer with small keys scores blocks of
// `ratio` neighbouring tokens of the row's history; the best blocks are attended to, and the tokens behind
// the last whole block. The history is what is committed, then the row's ancestors, then the row itself.
//
// What the indexer remembers has pages as keys and values do (kernels/attend.h), with one head: in the place
// of keys the raw index keys [width, 16], in the place of values [16, width] the block keys, each at the slot
// of the token that completes its block. So a block key moves with its token, and one that drafts complete in
// several ways has a slot for each.
#pragma once

#include "kernels/attend_parts.h"
#include "kernels/segments.h"

namespace kapitsa {

/// Norms and rotates index queries, the first 2 * half dimensions of a head, and puts raw index keys away.
struct IndexInputs {
    In<float> q;               // [rows, heads, width], q_stride apart
    In<float> k;               // [rows, width], k_stride apart
    In<float> q_norm;          // [width]
    In<float> cosines, sines;  // [rows, half]
    In<uint> slots;            // [rows]
    Out<float> rotated;        // [rows, heads, width]
    Out<float> keys;           // pages of raw keys
    uint rows, heads, width, half;
    uint q_stride, k_stride;  // floats from row to row
    float epsilon;
};
GRID(IndexInputs, args.rows, args.heads + 1, 1, 32)

/// How a row finds its history.
struct HistoryRows {
    In<uint> positions;        // [rows] tokens before the row on its own path
    In<int> parents;           // [rows]
    In<uint> slots;            // [rows]
    In<uint> pages;            // page tables, one behind the other
    In<SegmentRows> segments;  // [count]; drafts have 64 rows at most
    uint rows, count;
};

/// The key of the block that a row completes, if it completes one: the mean of its raw keys, normed, and
/// rotated by the position of its first token.
struct IndexBlocks {
    HistoryRows history;
    In<float> keys;         // pages of raw keys
    In<float> k_norm;       // [width]
    In<float> frequencies;  // [half]
    Out<float> blocks;      // pages of block keys
    uint width, half, ratio;
    float epsilon;
};
GRID(IndexBlocks, args.history.rows, 1, 1, 32)

constexpr uint best_blocks_threads = 256;
constexpr uint most_best_blocks = 1024;  // of a budget, on a device with groups

/// The best of a row's whole blocks, `budget` of them, sought in `parts` parts of its history, so that one
/// row is work for many. A block's score is the sum over heads of max(0, <query, block key>); of equal ones
/// the earlier is better, and a score that is no number counts as 0. Of n blocks part p has those from n p /
/// parts on; what is behind its last candidate is unset, as is all of a row that has no more than `budget`
/// blocks.
struct BestBlocks {
    HistoryRows history;
    In<float> q;        // [rows, heads, width], rotated
    In<float> blocks;   // pages of block keys
    Out<float> scores;  // [rows, parts, budget]
    Out<uint> numbers;  // [rows, parts, budget] ascending in a part
    uint heads, width, ratio, budget, parts;
};
GRID(BestBlocks, args.history.rows, args.parts, 1, best_blocks_threads)

/// The tokens that a row attends to, oldest first: those of the best of its candidates, and what stands
/// behind the last whole block.
struct ChooseTokens {
    HistoryRows history;
    In<float> scores;  // as BestBlocks leaves them
    In<uint> numbers;
    Out<uint> chosen;  // [rows, budget * ratio + ratio - 1] slots
    Out<uint> counts;  // [rows]
    uint ratio, budget, parts;
};
GRID(ChooseTokens, args.history.rows, 1, 1, best_blocks_threads)

#ifdef KERNEL_BODIES

/// Where the tokens of a row's history lie: as many as are said, of which those behind the committed ones are
/// the row's ancestors. A thread walks to the one it wants; a path is short.
struct RowHistory {
    SegmentRows segment;
    uint row, tokens;
};

BODY RowHistory row_history(HistoryRows rows, uint row) {
    uint s = 0;
    while (row - rows.segments[s].first_row >= rows.segments[s].rows) ++s;
    return RowHistory{rows.segments[s], row, rows.positions[row] + 1};
}

BODY uint history_slot(HistoryRows rows, RowHistory history, uint token) {
    if (history.segment.commit == 0 && token >= history.segment.committed) {
        int from = int(history.row);
        for (uint back = history.tokens - 1; back > token; --back) from = rows.parents[from];
        return rows.slots[from];
    }
    return rows.pages[history.segment.first_page + token / attend_page_tokens] * attend_page_tokens +
           token % attend_page_tokens;
}

struct IndexScratch {
    float head[attend_most_width];
};

/// y = scratch / rms(scratch) * weight, in place.
BODY void norm_index(In<float> weight, uint width, float epsilon, uint lane, Shared<IndexScratch> scratch) {
    float squares = 0;
    for (uint i = lane; i < width; i += 32) squares = fma(scratch.head[i], scratch.head[i], squares);
    const float scale = rsqrt(simd_sum(squares) / float(width) + epsilon);
    for (uint i = lane; i < width; i += 32) scratch.head[i] = scratch.head[i] * scale * weight[i];
    simd_barrier();
}

BODY void rotate_index(uint i, uint half, float cosine, float sine, Shared<IndexScratch> scratch) {
    const float a = scratch.head[i], b = scratch.head[i + half];
    scratch.head[i] = a * cosine - b * sine;
    scratch.head[i + half] = b * cosine + a * sine;
}

/// A simdgroup has a head of the queries, or the key.
BODY void index_inputs(Args<IndexInputs> args, Position at, Shared<IndexScratch> scratch) {
    const uint row = at.group.x, head = at.group.y, width = args.width;
    if (head == args.heads) {
        const Out<float> key = args.keys +
                               ulong(args.slots[row] / attend_page_tokens) * width * attend_page_tokens +
                               args.slots[row] % attend_page_tokens;
        for (uint i = at.lane; i < width; i += 32)
            key[i * attend_page_tokens] = args.k[ulong(row) * args.k_stride + i];
        return;
    }
    for (uint i = at.lane; i < width; i += 32)
        scratch.head[i] = args.q[ulong(row) * args.q_stride + head * width + i];
    simd_barrier();
    norm_index(args.q_norm, width, args.epsilon, at.lane, scratch);
    for (uint i = at.lane; i < args.half; i += 32)
        rotate_index(i, args.half, args.cosines[ulong(row) * args.half + i],
                     args.sines[ulong(row) * args.half + i], scratch);
    simd_barrier();
    for (uint i = at.lane; i < width; i += 32)
        args.rotated[(ulong(row) * args.heads + head) * width + i] = scratch.head[i];
}

BODY void index_blocks(Args<IndexBlocks> args, Position at, Shared<IndexScratch> scratch) {
    const RowHistory history = row_history(args.history, at.group.x);
    const uint width = args.width;
    if (history.tokens % args.ratio != 0) return;
    const uint begin = history.tokens - args.ratio;
    for (uint i = at.lane; i < width; i += 32) scratch.head[i] = 0;
    for (uint token = begin; token < history.tokens; ++token) {
        const uint slot = history_slot(args.history, history, token);
        const In<float> key = args.keys + ulong(slot / attend_page_tokens) * width * attend_page_tokens +
                              slot % attend_page_tokens;
        for (uint i = at.lane; i < width; i += 32) scratch.head[i] += key[i * attend_page_tokens];
    }
    for (uint i = at.lane; i < width; i += 32) scratch.head[i] /= float(args.ratio);
    simd_barrier();
    norm_index(args.k_norm, width, args.epsilon, at.lane, scratch);
    for (uint i = at.lane; i < args.half; i += 32) {
        const float angle = float(begin) * args.frequencies[i];
        rotate_index(i, args.half, cos(angle), sin(angle), scratch);
    }
    simd_barrier();
    const Out<float> y = args.blocks + ulong(args.history.slots[at.group.x]) * width;
    for (uint i = at.lane; i < width; i += 32) y[i] = scratch.head[i];
}

/// A list of blocks, by number, of which the best remain.
struct BestScratch {
    enum : uint { room = most_best_blocks + 1536 };
    float scores[room];
    uint numbers[room];
    uint words[32];
};

/// The sum over the group.
BODY uint count_all(uint value, Position at, Shared<BestScratch> scratch) {
    value = simd_sum(value);
    group_barrier();
    if (at.lane == 0) scratch.words[at.simdgroup] = value;
    group_barrier();
    return simd_sum(at.lane < at.simdgroups ? scratch.words[at.lane] : 0u);
}

/// How many of the threads before this one say yes. `all`: how many of all.
BODY uint count_before(bool yes, Position at, Local<uint> all, Shared<BestScratch> scratch) {
    const uint votes = simd_ballot(yes);
    group_barrier();
    if (at.lane == 0) scratch.words[at.simdgroup] = count_bits(votes);
    group_barrier();
    uint before = count_bits(votes & ((1u << at.lane) - 1));
    *all = 0;
    for (uint s = 0; s < at.simdgroups; ++s) {
        if (s < at.simdgroup) before += scratch.words[s];
        *all += scratch.words[s];
    }
    return before;
}

/// A word that is ordered as the scores are; they are no NaN.
BODY uint ordered(float score) {
    const uint word = bits<uint>(score == 0.0f ? 0.0f : score);
    return (word & 0x80000000u) != 0 ? ~word : word | 0x80000000u;
}

/// Of the first `count` of the list the best `budget` remain, in their order; of equal ones the earlier are
/// better.
BODY void keep_best(uint count, uint budget, Position at, Shared<BestScratch> scratch) {
    const uint threads = at.simdgroups * 32;
    group_barrier();
    uint threshold = 0;  // the word of the last one that remains, bit by bit
    for (uint bit = 32; bit-- > 0;) {
        const uint tried = threshold | 1u << bit;
        uint reached = 0;
        for (uint i = at.index; i < count; i += threads)
            reached += ordered(scratch.scores[i]) >= tried ? 1 : 0;
        if (count_all(reached, at, scratch) >= budget) threshold = tried;
    }
    uint above = 0;
    for (uint i = at.index; i < count; i += threads) above += ordered(scratch.scores[i]) > threshold ? 1 : 0;
    const uint ties = budget - count_all(above, at, scratch);
    uint kept = 0, ties_seen = 0;
    for (uint first = 0; first < count; first += threads) {
        const uint i = first + at.index;
        const float score = i < count ? scratch.scores[i] : 0.0f;
        const uint number = i < count ? scratch.numbers[i] : 0, word = ordered(score);
        uint all_ties, all_kept;
        const bool is_tie = i < count && word == threshold;
        const uint ties_before = ties_seen + count_before(is_tie, at, &all_ties, scratch);
        const bool remains = i < count && (word > threshold || (is_tie && ties_before < ties));
        const uint place = kept + count_before(remains, at, &all_kept, scratch);
        group_barrier();  // all have read; places lie no further back than what was read
        if (remains) {
            scratch.scores[place] = score;
            scratch.numbers[place] = number;
        }
        ties_seen += all_ties;
        kept += all_kept;
    }
    group_barrier();
}

BODY float index_score(Args<BestBlocks> args, uint row, In<float> key) {
    float score = 0;
    for (uint head = 0; head < args.heads; ++head) {
        const In<float> q = args.q + (ulong(row) * args.heads + head) * args.width;
        float match = 0;
        for (uint i = 0; i < args.width; ++i) match = fma(q[i], key[i], match);
        if (match > 0) score += match;
    }
    return score;
}

/// The blocks of a part of `blocks` blocks begin here.
BODY uint part_begin(uint blocks, uint part, uint parts) { return uint(ulong(blocks) * part / parts); }

BODY void best_blocks(Args<BestBlocks> args, Position at, Shared<BestScratch> scratch) {
    const uint row = at.group.x, part = at.group.y, threads = at.simdgroups * 32;
    const RowHistory history = row_history(args.history, row);
    const uint blocks = history.tokens / args.ratio, budget = args.budget;
    if (blocks <= budget) return;
    const uint end = part_begin(blocks, part + 1, args.parts);
    uint count = 0;
    for (uint first = part_begin(blocks, part, args.parts); first < end;) {
        const uint more = min(end - first, BestScratch::room - count);
        for (uint i = at.index; i < more; i += threads) {
            const uint slot = history_slot(args.history, history, (first + i + 1) * args.ratio - 1);
            scratch.scores[count + i] = index_score(args, row, args.blocks + ulong(slot) * args.width);
            scratch.numbers[count + i] = first + i;
        }
        count += more;
        first += more;
        if (count > budget) {
            keep_best(count, budget, at, scratch);
            count = budget;
        }
    }
    group_barrier();
    const ulong to = (ulong(row) * args.parts + part) * budget;
    for (uint i = at.index; i < count; i += threads) {
        args.scores[to + i] = scratch.scores[i];
        args.numbers[to + i] = scratch.numbers[i];
    }
}

BODY void choose_tokens(Args<ChooseTokens> args, Position at, Shared<BestScratch> scratch) {
    const uint row = at.group.x, threads = at.simdgroups * 32, ratio = args.ratio, budget = args.budget;
    const RowHistory history = row_history(args.history, row);
    const uint blocks = history.tokens / ratio;
    uint count = 0;
    if (blocks <= budget) {  // all are chosen, whatever they are worth
        for (uint i = at.index; i < blocks; i += threads) scratch.numbers[i] = i;
        count = blocks;
    } else {
        for (uint part = 0; part < args.parts; ++part) {
            const uint of_part =
                min(part_begin(blocks, part + 1, args.parts) - part_begin(blocks, part, args.parts), budget);
            const ulong from = (ulong(row) * args.parts + part) * budget;
            for (uint first = 0; first < of_part;) {
                const uint more = min(of_part - first, BestScratch::room - count);
                for (uint i = at.index; i < more; i += threads) {
                    scratch.scores[count + i] = args.scores[from + first + i];
                    scratch.numbers[count + i] = args.numbers[from + first + i];
                }
                count += more;
                first += more;
                if (count > budget) {
                    keep_best(count, budget, at, scratch);
                    count = budget;
                }
            }
        }
    }
    group_barrier();
    const Out<uint> chosen = args.chosen + ulong(row) * (budget * ratio + ratio - 1);
    for (uint i = at.index; i < count * ratio; i += threads)
        chosen[i] = history_slot(args.history, history, scratch.numbers[i / ratio] * ratio + i % ratio);
    const uint rest = history.tokens - blocks * ratio;
    for (uint i = at.index; i < rest; i += threads)
        chosen[count * ratio + i] = history_slot(args.history, history, blocks * ratio + i);
    if (at.index == 0) args.counts[row] = count * ratio + rest;
}

#endif

ENTRY(index_inputs_f32, index_inputs, IndexInputs, IndexScratch)
ENTRY(index_blocks_f32, index_blocks, IndexBlocks, IndexScratch)
ENTRY(best_blocks_f32, best_blocks, BestBlocks, BestScratch)
ENTRY(choose_tokens_f32, choose_tokens, ChooseTokens, BestScratch)

}  // namespace kapitsa

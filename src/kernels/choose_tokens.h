// The tokens that each row attends to where attention is sparse. An indexer with small keys scores blocks of
// `ratio` neighbouring tokens of the row's history; the best blocks are attended to, and the tokens behind
// the last whole block. The history is what is committed, then the row's ancestors, then the row itself.
//
// What the indexer remembers has pages as keys and values do (kernels/attend.h), with one head: in the place
// of keys the raw index keys [width, 16], in the place of values [16, width] the block keys, each at the slot
// of the token that completes its block. So a block key moves with its token, and one that drafts complete in
// several ways has a slot for each.
#pragma once

#include "kernels/segments.h"

namespace kapitsa {

/// Norms and rotates index queries, the first 2 * half dimensions of a head, and puts raw index keys away.
struct IndexInputs {
    In<float> qk;              // [rows, heads + 1, width]: queries, and the key behind them
    In<float> q_norm;          // [width]
    In<float> cosines, sines;  // [rows, half]
    In<uint> slots;            // [rows]
    Out<float> rotated;        // [rows, heads, width]
    Out<float> keys;           // pages of raw keys
    uint rows, heads, width, half;
    float epsilon;
};

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

ENTRY(index_inputs_f32, IndexInputs)
ENTRY(index_blocks_f32, IndexBlocks)
ENTRY(best_blocks_f32, BestBlocks)
ENTRY(choose_tokens_f32, ChooseTokens)

}  // namespace kapitsa

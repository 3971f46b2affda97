// How the rows of a step lie, as every kernel that looks beyond its own row sees it.
#pragma once

#include "kernels/dialect/dialect.h"

namespace kapitsa {

/// Neighbouring rows of one sequence.
struct SegmentRows {
    uint sequence;  // slot of the recurrent state
    uint first_row;
    uint rows;
    uint committed;   // tokens of the sequence before this step
    uint first_page;  // where its page table begins in `pages`
    uint commit;      // 1: a chain, written to the sequence in this pass; 0: a draft
};

/// The rows that one sequence takes over, in order: all of a chain, or the accepted path of a draft.
struct CommitPath {
    uint sequence;
    uint first;  // where the path begins in the list of rows
    uint rows;
};

/// The chunked forms of recurrent rules begin their chunks at multiples of this many tokens of a sequence.
constexpr uint recurrent_chunk_rows = 64;

constexpr int no_row = -1;  // a parent: the row continues what is committed

}  // namespace kapitsa

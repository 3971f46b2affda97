// A step as the device sees it: the arrays that kernels read, laid out by the runner before the launches are
// recorded.
#pragma once

#include <cstdint>

#include "backend/tensor.h"

namespace kapitsa {

struct Batch {
    std::uint32_t rows = 0;
    Address tokens;     // int [rows]
    Address parents;    // int [rows]
    Address depths;     // uint [rows] how many tokens stand before the row on its own path
    Address positions;  // uint [rows, position_axes] for the rotation, see model/positions.h
    Address sequences;  // uint [rows]
    Address slots;      // uint [rows] where the row's keys and values go: page * page_tokens + place
    Address pages;      // uint: the page tables of the segments, one behind the other

    std::uint32_t given = 0;  // rows whose embedding is not their token's
    Address given_rows;       // uint [given]
    Address given_values;     // float [given, width]

    std::uint32_t segments = 0, tiles = 0;
    Address all;  // SegmentRows [segments]; tiles: of attention, see kernels/attend.h
    // The same rows once more, by how the recurrent layers take them: chunks first, then what is left row by
    // row.
    std::uint32_t stepped = 0, stepped_rows_max = 0, chunked = 0;
    Address by_rows;    // SegmentRows [stepped]: drafts and short chains
    Address by_chunks;  // SegmentRows [chunked]: long chains

    std::uint32_t commits = 0;
    Address commit_rows;   // uint: the rows of the chains to commit
    Address commit_paths;  // CommitPath [commits]

    std::uint32_t kept = 0;
    Address kept_rows;  // uint [kept]: the rows of drafts, whose inputs the recurrent layers keep for a later
                        // commit
    Address kept_at;    // uint [kept]: where they are kept

    std::uint32_t wanted = 0;
    Address wanted_rows;  // uint [wanted]
};

/// What a commit of accepted paths needs.
struct CommitBatch {
    std::uint32_t paths = 0;
    Address kept_rows;     // uint: rows as Batch::kept_at placed them
    Address commit_paths;  // CommitPath [paths]
    std::uint32_t moves = 0;
    Address from, to;  // uint [moves] slots of keys and values
};

}  // namespace kapitsa

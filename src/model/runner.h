// A loaded model, ready to compute. The one call that computes is forward(step): a step is a batch of rows,
// and a row is {token, parent, sequence}. Prefill is a long chain, decoding a chain of one row, the
// verification of a draft a small tree, and several requests are several segments of one step.
//
// Forward reads, commit writes: rows of a segment that is not `commit` leave the sequence as it was,
// until Runner::commit takes a path of them over.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/picture.h"
#include "base/result.h"
#include "cache/page.h"
#include "model/positions.h"

namespace kapitsa {

constexpr std::int32_t no_parent = -1;

/// Neighbouring rows of one sequence.
struct Segment {
    std::uint32_t sequence = 0;  // its slot: the recurrent state
    std::uint32_t first_row = 0, rows = 0;
    std::uint32_t committed = 0;  // tokens of the sequence computed before this step
    bool commit = true;           // a chain wanted in full; else (a draft) see Runner::commit
    std::span<const Page> pages;  // room for committed + rows tokens, in order; owned by the caller
    // For the rotation: a row that continues what is committed stands at the time committed + shift. Not 0
    // where pictures stand before it (model/positions.h).
    std::int32_t shift = 0;
};

/// A row that does not stand one step of time behind its parent: of a picture, or the first behind one.
struct PlacedRow {
    std::uint32_t row = 0;
    RowPosition position;
    const float* embedding = nullptr;  // [width] in place of its token's; null: its token's
};

struct Step {
    std::vector<Token> tokens;           // [rows]
    std::vector<std::int32_t> parents;   // [rows] an earlier row of the same segment, by its number in the
                                         // step, or no_parent: the row continues what is committed. In a
                                         // `commit` segment each row's parent is the row before it.
    std::vector<Segment> segments;       // they cover the rows in order; no sequence stands in two of them
    std::vector<std::uint32_t> wanted;   // [wanted] rows whose logits are wanted, ascending
    std::vector<PlacedRow> placed = {};  // by row, ascending; empty where all is text
};

struct RunnerInfo {
    std::string architecture;               // "qwen3_5"
    std::string backend = {}, device = {};  // "cuda", and what it runs on, for people
    bool on_host = true;                    // weights are read from the machine's own memory
    std::uint32_t vocabulary = 0;           // columns of the logits
    std::uint32_t context = 0;              // tokens one sequence may hold
    std::uint32_t sequences = 0;            // slots
    std::uint32_t pages = 0;                // in the pool
    std::uint32_t rows_per_step = 0;        // the most a step may have
    std::uint32_t draft_rows = 0;           // the most rows of one segment that is not `commit`
    std::uint64_t weight_bytes = 0;         // that lie in memory
    std::uint64_t decode_bytes = 0;         // weights read to compute one token
    // Pictures: what they must be like, and the most patches of one; 0: it sees none, and why.
    std::uint32_t picture_patches = 0, picture_side = 0, picture_block = 0, picture_frames = 0;
    std::string blind_because = "the model has no vision tower";
    std::uint32_t width = 0;  // of the stream, and of a row that stands for a part of a picture
    // Memory for experts and for rows of tables, where they stay in their files; else 0.
    std::uint64_t expert_bytes = 0, table_bytes = 0;
};

/// Of experts, or of rows of tables, that stay in files (model/disk_memory.h).
struct DiskCounters {
    std::uint64_t found = 0;       // those that were in memory when they were asked for
    std::uint64_t read = 0;        // and that were not, or not yet wholly
    std::uint64_t bytes_read = 0;  // from the files
};

/// One thread, the engine's, calls it.
class Runner {
public:
    virtual ~Runner() = default;
    virtual const RunnerInfo& info() const = 0;
    /// Any thread may ask.
    virtual DiskCounters expert_counters() const { return {}; }
    virtual DiskCounters table_counters() const { return {}; }

    /// Makes the slot an empty sequence: recurrent state zero.
    virtual Status reset(std::uint32_t sequence) = 0;

    /// Computes the step. @return [wanted, vocabulary] logits, valid (and writable) until the next call.
    /// Fault::device once the device has failed. A step that breaks the rules above is a bug and aborts.
    virtual Result<std::span<float>> forward(const Step& step) = 0;

    /// The rows that stand for a picture, which is of the kind that `info` says. @return [tokens, width]
    virtual Result<std::vector<float>> see(const Picture&) {
        return fail(Fault::unsupported, info().blind_because);
    }

    /// Takes over rows of the last step's segment of `sequence`, which was not `commit`: a path from a child
    /// of the committed tokens downwards, by row numbers of that step. Afterwards the sequence is as if just
    /// these rows had been decoded. Segments for which this is not called before the next forward are
    /// forgotten.
    virtual Status commit(std::uint32_t sequence, std::span<const std::uint32_t> path) = 0;
};

}  // namespace kapitsa

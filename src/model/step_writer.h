// Lays a step out for the device: from the engine's rows to the arrays of Batch.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "kernels/segments.h"
#include "model/batch.h"
#include "model/runner.h"

namespace kapitsa {

/// A draft of the last step: where its rows' inputs are kept, and where its keys and values lie.
struct DraftSegment {
    std::uint32_t sequence = 0, first_row = 0, rows = 0, committed = 0;
    std::uint32_t first_kept = 0;
    std::vector<std::int32_t> parents;  // by number in the segment, or no_parent
    std::vector<std::uint32_t> slots;   // [rows]
};

class StepWriter {
public:
    struct Limits {
        std::uint32_t rows, segments, pages, wanted, kept;  // the most of each in one step
        std::uint32_t width = 0;                            // of embeddings that may be given; 0: none may
    };
    /// Chains longer than this take the chunked forms of the recurrent rules; up to this length a row's
    /// result is the same to the bit whichever rows ride along.
    static constexpr std::uint32_t longest_stepped = 16;

    static Result<std::unique_ptr<StepWriter>> make(Backend& backend, const Limits& limits);

    /// Writes the step to the device. `drafts` gets the segments that may be committed later.
    Batch write(const Step& step, std::vector<DraftSegment>& drafts);
    /// Writes an accepted path of a draft, by row numbers of the step.
    CommitBatch write_commit(const DraftSegment& draft, std::span<const std::uint32_t> path);

private:
    StepWriter(Backend& backend, Address memory, const Limits& limits);

    /// A stretch of device memory and the host's copy of what goes there.
    template <typename T>
    struct Column {
        Address at;
        std::vector<T> values;
    };
    template <typename T>
    void place(Column<T>& column, std::size_t most, Address& next);
    template <typename T>
    void send(Column<T>& column) {
        backend_->write(column.at, std::as_bytes(std::span(column.values)));
    }
    static std::size_t bytes_for(const Limits& limits);
    void clear();
    RowPosition position_behind(std::int32_t parent, const Segment& segment) const;
    void add_placed(const PlacedRow& placed);
    void add_rows(const Step& step, const Segment& segment);
    void add_segment(const Segment& segment, std::vector<DraftSegment>& drafts, const Step& step);
    void add_recurrent(const SegmentRows& rows);
    void send_all();

    Backend* backend_;
    Column<std::int32_t> tokens_, parents_;
    Column<std::uint32_t> positions_, sequences_, slots_, pages_, commit_rows_, kept_rows_, kept_at_, wanted_;
    Column<std::uint32_t> depths_, given_rows_;
    Column<float> given_;
    std::uint32_t width_ = 0;
    Column<SegmentRows> all_, by_rows_, by_chunks_;
    Column<CommitPath> commit_paths_;
    Column<std::uint32_t> from_, to_;
};

}  // namespace kapitsa

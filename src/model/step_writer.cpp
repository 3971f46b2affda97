#include "model/step_writer.h"

#include <algorithm>

#include "kernels/attend.h"

namespace kapitsa {
namespace {

static_assert(attend_page_tokens == page_tokens);

constexpr std::size_t alignment = 64;
constexpr std::size_t padded(std::size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

}  // namespace

template <typename T>
void StepWriter::place(Column<T>& column, std::size_t most, Address& next) {
    column.at = next;
    column.values.reserve(most);
    next = next + padded(most * sizeof(T));
}

std::size_t StepWriter::bytes_for(const Limits& limits) {
    return 9 * padded(4 * std::size_t(limits.rows)) + padded(4 * position_axes * std::size_t(limits.rows)) +
           padded(4 * std::size_t(limits.rows) * limits.width) + 4 * padded(4 * std::size_t(limits.kept)) +
           padded(4 * std::size_t(limits.wanted)) + padded(4 * std::size_t(limits.pages)) +
           3 * padded(sizeof(SegmentRows) * limits.segments) + padded(sizeof(CommitPath) * limits.segments);
}

Result<std::unique_ptr<StepWriter>> StepWriter::make(Backend& backend, const Limits& limits) {
    const Address memory = TRY(backend.allocate(bytes_for(limits)));
    return std::unique_ptr<StepWriter>(new StepWriter(backend, memory, limits));
}

StepWriter::StepWriter(Backend& backend, Address memory, const Limits& limits) : backend_(&backend) {
    Address next = memory;
    place(tokens_, limits.rows, next);
    place(parents_, limits.rows, next);
    place(positions_, position_axes * std::size_t(limits.rows), next);
    place(depths_, limits.rows, next);
    place(given_rows_, limits.rows, next);
    place(given_, std::size_t(limits.rows) * limits.width, next);
    width_ = limits.width;
    place(sequences_, limits.rows, next);
    place(slots_, limits.rows, next);
    place(commit_rows_, limits.rows, next);
    place(from_, limits.rows, next);
    place(to_, limits.rows, next);
    place(kept_rows_, limits.kept, next);
    place(kept_at_, limits.kept, next);
    place(wanted_, limits.wanted, next);
    place(pages_, limits.pages, next);
    place(all_, limits.segments, next);
    place(by_rows_, limits.segments, next);
    place(by_chunks_, limits.segments, next);
    place(commit_paths_, limits.segments, next);
}

void StepWriter::clear() {
    for (auto* column : {&tokens_, &parents_}) column->values.clear();
    for (auto* column :
         {&positions_, &sequences_, &slots_, &pages_, &commit_rows_, &kept_rows_, &kept_at_, &wanted_})
        column->values.clear();
    for (auto* column : {&all_, &by_rows_, &by_chunks_}) column->values.clear();
    commit_paths_.values.clear();
    depths_.values.clear();
    given_rows_.values.clear();
    given_.values.clear();
}

/// Where a row stands that has no place of its own: one step of time behind its parent.
RowPosition StepWriter::position_behind(std::int32_t parent, const Segment& segment) const {
    const std::uint32_t time = parent == no_parent
                                   ? segment.committed + std::uint32_t(segment.shift)
                                   : positions_.values[std::size_t(parent) * position_axes] + 1;
    return {time, time, time};
}

void StepWriter::add_placed(const PlacedRow& placed) {
    if (!placed.embedding) return;
    CHECK(width_ > 0);
    given_rows_.values.push_back(placed.row);
    given_.values.insert(given_.values.end(), placed.embedding, placed.embedding + width_);
}

void StepWriter::add_rows(const Step& step, const Segment& segment) {
    auto placed = std::ranges::lower_bound(step.placed, segment.first_row, {}, &PlacedRow::row);
    for (std::uint32_t i = 0; i < segment.rows; ++i) {
        const std::uint32_t row = segment.first_row + i, place = segment.committed + i;
        const std::int32_t parent = step.parents[row];
        tokens_.values.push_back(step.tokens[row]);
        parents_.values.push_back(parent);
        depths_.values.push_back(parent == no_parent ? segment.committed
                                                     : depths_.values[std::size_t(parent)] + 1);
        RowPosition position = position_behind(parent, segment);
        if (placed != step.placed.end() && placed->row == row) {
            position = placed->position;
            add_placed(*placed++);
        }
        for (const std::uint32_t axis : {position.time, position.row, position.column})
            positions_.values.push_back(axis);
        sequences_.values.push_back(segment.sequence);
        slots_.values.push_back(segment.pages[place / page_tokens] * page_tokens + place % page_tokens);
    }
}

void StepWriter::add_segment(const Segment& segment, std::vector<DraftSegment>& drafts, const Step& step) {
    const SegmentRows rows{segment.sequence,
                           segment.first_row,
                           segment.rows,
                           segment.committed,
                           std::uint32_t(pages_.values.size()),
                           segment.commit ? 1u : 0u};
    pages_.values.insert(pages_.values.end(), segment.pages.begin(),
                         segment.pages.begin() + pages_for(segment.committed + segment.rows));
    all_.values.push_back(rows);
    add_recurrent(rows);
    if (segment.commit) {
        commit_paths_.values.push_back(
            {segment.sequence, std::uint32_t(commit_rows_.values.size()), segment.rows});
        for (std::uint32_t i = 0; i < segment.rows; ++i) commit_rows_.values.push_back(segment.first_row + i);
        return;
    }
    DraftSegment draft{segment.sequence,
                       segment.first_row,
                       segment.rows,
                       segment.committed,
                       std::uint32_t(kept_rows_.values.size()),
                       {},
                       {}};
    for (std::uint32_t row = segment.first_row; row < segment.first_row + segment.rows; ++row) {
        const std::int32_t parent = step.parents[row];
        draft.parents.push_back(parent == no_parent ? no_parent : parent - std::int32_t(segment.first_row));
        draft.slots.push_back(slots_.values[row]);
        kept_at_.values.push_back(std::uint32_t(kept_rows_.values.size()));
        kept_rows_.values.push_back(row);
    }
    drafts.push_back(std::move(draft));
}

/// A long chain is taken in chunks on the grid of the sequence; but a last one of few rows row by row, as it
/// would be had it come alone. So a prompt that is cut at the grid has the same bits wherever it is cut.
void StepWriter::add_recurrent(const SegmentRows& rows) {
    if (!rows.commit || rows.rows <= longest_stepped) {
        by_rows_.values.push_back(rows);
        return;
    }
    const std::uint32_t rest = (rows.committed + rows.rows) % recurrent_chunk_rows;
    const std::uint32_t tail = rest <= longest_stepped ? rest : 0;
    SegmentRows chunks = rows;
    chunks.rows -= tail;
    by_chunks_.values.push_back(chunks);
    if (tail == 0) return;
    SegmentRows last = rows;
    last.first_row += chunks.rows;
    last.committed += chunks.rows;
    last.rows = tail;
    by_rows_.values.push_back(last);
}

void StepWriter::send_all() {
    for (auto* column : {&tokens_, &parents_}) send(*column);
    for (auto* column :
         {&positions_, &sequences_, &slots_, &pages_, &commit_rows_, &kept_rows_, &kept_at_, &wanted_})
        send(*column);
    for (auto* column : {&all_, &by_rows_, &by_chunks_}) send(*column);
    send(commit_paths_);
    send(depths_);
    send(given_rows_);
    send(given_);
}

Batch StepWriter::write(const Step& step, std::vector<DraftSegment>& drafts) {
    clear();
    drafts.clear();
    Batch batch;
    for (const Segment& segment : step.segments) {
        add_rows(step, segment);
        add_segment(segment, drafts, step);
        batch.tiles += (segment.rows + attend_tile_rows - 1) / attend_tile_rows;
    }
    for (const SegmentRows& rows : by_rows_.values)
        batch.stepped_rows_max = std::max(batch.stepped_rows_max, rows.rows);
    wanted_.values = step.wanted;
    send_all();

    const auto count = [](const auto& column) { return std::uint32_t(column.values.size()); };
    batch.rows = count(tokens_);
    batch.tokens = tokens_.at;
    batch.parents = parents_.at;
    batch.positions = positions_.at;
    batch.depths = depths_.at;
    batch.given = count(given_rows_);
    batch.given_rows = given_rows_.at;
    batch.given_values = given_.at;
    batch.sequences = sequences_.at;
    batch.slots = slots_.at;
    batch.pages = pages_.at;
    batch.segments = count(all_);
    batch.all = all_.at;
    batch.stepped = count(by_rows_);
    batch.by_rows = by_rows_.at;
    batch.chunked = count(by_chunks_);
    batch.by_chunks = by_chunks_.at;
    batch.commits = count(commit_paths_);
    batch.commit_rows = commit_rows_.at;
    batch.commit_paths = commit_paths_.at;
    batch.kept = count(kept_rows_);
    batch.kept_rows = kept_rows_.at;
    batch.kept_at = kept_at_.at;
    batch.wanted = count(wanted_);
    batch.wanted_rows = wanted_.at;
    return batch;
}

CommitBatch StepWriter::write_commit(const DraftSegment& draft, std::span<const std::uint32_t> path) {
    for (auto* column : {&commit_rows_, &from_, &to_}) column->values.clear();
    std::int32_t parent = no_parent;
    for (std::uint32_t depth = 0; depth < path.size(); ++depth) {
        CHECK(path[depth] >= draft.first_row && path[depth] - draft.first_row < draft.rows);
        const std::uint32_t row = path[depth] - draft.first_row;
        CHECK(draft.parents[row] == parent);
        parent = std::int32_t(row);
        commit_rows_.values.push_back(draft.first_kept + row);
        if (row == depth) continue;  // its keys and values lie where they belong
        from_.values.push_back(draft.slots[row]);
        to_.values.push_back(draft.slots[depth]);
    }
    commit_paths_.values.assign(1, {draft.sequence, 0, std::uint32_t(path.size())});
    for (auto* column : {&commit_rows_, &from_, &to_}) send(*column);
    send(commit_paths_);
    return {.paths = 1,
            .kept_rows = commit_rows_.at,
            .commit_paths = commit_paths_.at,
            .moves = std::uint32_t(from_.values.size()),
            .from = from_.at,
            .to = to_.at};
}

}  // namespace kapitsa

// What of a model stays in its files: experts and rows of tables, with one amount of memory between them and
// one set of threads that read.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "model/disk_readers.h"
#include "model/expert_memory.h"
#include "model/row_memory.h"

namespace kapitsa {

class DiskMemory {
    DiskReaders readers_;  // gone last

public:
    /// `files` must outlive this.
    explicit DiskMemory(std::span<const MappedFile> files) : readers_(files) {}

    ExpertMemory experts{readers_};
    RowMemory rows{readers_};

    /// Of all that could stay in files.
    std::uint64_t bytes() const { return experts.bytes() + rows.bytes(); }
    std::uint64_t least_bytes(std::uint32_t rows_per_step) const {
        return experts.least_bytes() + rows.least_bytes(rows_per_step);
    }

    /// Nothing: all of the kind are used where they are mapped.
    struct Shares {
        std::optional<std::uint64_t> experts, rows;
    };
    /// An amount, divided. A row is small and its read takes nearly as long as that of an expert; but few are
    /// read for a token, and most of a table's rows never. So rows get a sixteenth, or what experts leave.
    Shares divide(std::uint64_t bytes, std::uint32_t rows_per_step) const;
    /// Before the first step. Fault::invalid_input when a share is too small, with the least that would do.
    Status start(const Shares& shares, std::uint32_t rows_per_step);
    bool started() const { return experts.started() || rows.started(); }

    /// After a step: an error if it read what its file does not have any more. Its results are worth nothing.
    Status status() const { return readers_.status(); }
};

}  // namespace kapitsa

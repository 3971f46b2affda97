// Rows of tables that are larger than memory (kernels/ngrams.h). A step asks for few of them, here and there,
// and says which long before it looks them up: the missing ones are read meanwhile. Those that were asked for
// lately lie in memory of a fixed size, row by row, since a row's neighbours are not its relatives: the more
// often one was asked for, the longer it stays.
//
// A lookup then finds each row as a part of its own, with the bytes of its file, so no result depends on how
// much memory there is. What cannot be read this way is used where it is mapped. When the machine runs short,
// memory is given back.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "model/disk_readers.h"
#include "model/machine_memory.h"
#include "model/runner.h"
#include "model/weight.h"

namespace kapitsa {

class RowMemory final : public HostWork, private DiskReads {
public:
    struct Options {
        std::uint64_t bytes = 0;  // rounded down to whole rows; at least least_bytes()
        std::uint32_t rows_per_step = 0;
        MachineWatch::Options watch = {};
    };

    /// `readers` must outlive this.
    explicit RowMemory(DiskReaders& readers) : readers_(readers) {}
    ~RowMemory() override { readers_.stop(); }

    /// Makes a table known, in parts of one size. @param picks that each row of a step looks up
    /// @param part_bytes of what a lookup reads of a part
    /// @return the number of the table
    std::uint32_t add(std::span<const Weight> parts, std::uint32_t picks, std::size_t part_bytes);

    /// Of all tables that are known and lie in files.
    std::uint64_t bytes() const { return bytes_; }
    /// Room for all that one step may look up.
    std::uint64_t least_bytes(std::uint32_t rows_per_step) const;
    /// With so much all rows lie in memory.
    std::uint64_t most_bytes(std::uint32_t rows_per_step) const;

    /// Before the first step. Fault::invalid_input when the bytes are too few, with the least that would do.
    Status start(Options options);
    bool started() const { return usable_slots_ > 0; }

    /// Records that a table's rows are begun to be read: uint picked [count] on the device, where they stay
    /// until they are looked up. Between this and `before_lookup` of the same table there is none for it.
    void begin(Backend& backend, std::uint32_t table, Address picked, std::uint32_t count);
    /// What a lookup has in place of the table and of the rows picked: each is row 0 of the part that picked
    /// it.
    struct Rows {
        Address parts, picked;
    };
    /// Records that the next launch looks up the rows that were begun. Nothing where the table is used where
    /// it is mapped.
    std::optional<Rows> before_lookup(Backend& backend, std::uint32_t table, Address picked,
                                      std::uint32_t count);

    /// By rows, those of one step counted once.
    DiskCounters counters() const;
    /// That can be used now: less than it began with where the machine ran short.
    std::uint64_t usable_bytes() const;

private:
    static constexpr std::uint32_t none = ~std::uint32_t{0};

    struct Table {
        std::vector<Weight> parts;
        std::vector<Weight::Range> ranges;  // of one row, that lie in files; alike for all rows
        std::uint32_t picks = 0;
        std::size_t part_bytes = 0;
        std::uint64_t row_bytes = 0;         // of the ranges
        std::uint32_t waiting = 0;           // rows being read; with the lock
        std::vector<std::uint32_t> slots;    // [most picked of a step] where they are, or none
        std::vector<std::byte> their_parts;  // [the same, part_bytes]
    };
    /// A row in memory. Zero is one that holds nothing.
    struct Slot {
        enum class State : std::uint8_t { empty, reading, present, mapped };
        std::uint32_t row;
        std::uint32_t next;  // slot behind it in its bucket, + 1; 0: none
        std::uint32_t step;  // that needed it, the last time
        std::uint16_t table;
        std::uint8_t uses;  // counted up when it is asked for again, down when its place is wanted
        State state;
    };
    struct Call {
        enum class Kind : std::uint32_t { begin, finish } kind;
        std::uint32_t table, count;
        std::uint64_t picked;
    };

    void between_launches(Bytes args) override;
    Result<bool> read_part(std::uint32_t slot) override;
    bool part_is_read(std::uint32_t slot, bool in_memory) override;
    void begin_rows(std::uint32_t table, std::span<const std::uint32_t> picked);
    void finish_rows(Table& table, std::span<const std::uint32_t> picked);
    std::uint32_t ask(std::uint32_t table, std::uint32_t row);
    std::uint32_t take_slot();
    std::uint32_t& bucket_of(std::uint32_t table, std::uint32_t row) const;
    void forget(std::uint32_t slot);
    void heed_the_machine();
    static Weight row_of(const Table& table, std::uint32_t row);
    std::uint64_t slot_bytes() const;
    std::uint64_t each_bytes() const;
    std::uint64_t picked_bytes(std::uint32_t rows_per_step) const;
    std::uint64_t rows() const;
    std::byte* memory_of(std::uint32_t slot) const { return memory_.data() + slot * slot_bytes_; }

    DiskReaders& readers_;
    std::vector<Table> tables_;
    std::uint64_t bytes_ = 0;

    PinnedMemory memory_, index_;
    std::span<Slot> slots_;             // in index_
    std::span<std::uint32_t> buckets_;  // in index_; a slot + 1, or 0
    std::vector<std::uint32_t> first_;  // 0, 1, 2...: row i of a lookup is that of its part i
    std::optional<MachineWatch> watch_;
    std::uint64_t slot_bytes_ = 0;
    std::uint32_t least_slots_ = 0, usable_slots_ = 0;
    std::uint32_t used_slots_ = 0;  // those from here on have held nothing yet
    std::uint32_t hand_ = 0;
    std::uint32_t step_ = 0, begun_ = 0;  // tables of it that are not finished
    // With the readers' lock, as the slots' states are:
    bool warned_ = false;
    DiskCounters counters_;
};

}  // namespace kapitsa

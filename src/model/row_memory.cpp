#include "model/row_memory.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <numeric>

#include "base/log.h"
#include "model/products.h"

namespace kapitsa {
namespace {

constexpr std::uint8_t uses_most = 3;
constexpr std::uint64_t alignment = 16;  // of a range in a slot; elements have 4 at the most

std::uint64_t aligned(std::uint64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

/// Of a thread: the blocks around a row, of which the row alone is kept.
std::byte* room_for_blocks(std::uint64_t bytes) {
    struct alignas(DiskFiles::block) Block {
        std::byte bytes[DiskFiles::block];
    };
    thread_local std::vector<Block> room;
    if (room.size() * sizeof(Block) < bytes) room.resize(bytes / sizeof(Block) + 1);
    return room.front().bytes;
}

}  // namespace

// ---- what there is

std::uint32_t RowMemory::add(std::span<const Weight> parts, std::uint32_t picks, std::size_t part_bytes) {
    CHECK(!started() && !parts.empty() && picks > 0);
    Table table;
    table.parts.assign(parts.begin(), parts.end());
    table.picks = picks;
    table.part_bytes = part_bytes;
    // What is no part of a file (a tensor that had to be copied) is in memory already.
    for (const Weight::Range& range : parts.front().row(0).ranges())
        if (range.bytes > 0 && std::ranges::all_of(parts, [&](const Weight& part) {
                return readers_.files().hold(part.*range.place);
            }))
            table.ranges.push_back(range);
    for (const Weight::Range& range : table.ranges) table.row_bytes += range.bytes;
    bytes_ += table.row_bytes * parts.front().rows * parts.size();
    tables_.push_back(std::move(table));
    CHECK(tables_.size() <= 1u << 16);
    return std::uint32_t(tables_.size() - 1);
}

std::uint64_t RowMemory::slot_bytes() const {
    std::uint64_t most = 0;
    for (const Table& table : tables_) {
        std::uint64_t bytes = 0;
        for (const Weight::Range& range : table.ranges) bytes += aligned(range.bytes);
        most = std::max(most, bytes);
    }
    return most;
}

/// A row, and what is known of it; of buckets there may be two to a row.
std::uint64_t RowMemory::each_bytes() const {
    return slot_bytes() + sizeof(Slot) + 2 * sizeof(std::uint32_t);
}

std::uint64_t RowMemory::picked_bytes(std::uint32_t rows_per_step) const {
    std::uint64_t bytes = 0, most = 0;
    for (const Table& table : tables_) {
        if (table.ranges.empty()) continue;
        bytes +=
            std::uint64_t(rows_per_step) * table.picks * (table.part_bytes + sizeof(table.slots.front()));
        most = std::max<std::uint64_t>(most, table.picks);
    }
    return bytes + most * rows_per_step * sizeof(first_.front());
}

std::uint64_t RowMemory::rows() const {
    std::uint64_t rows = 0;
    for (const Table& table : tables_)
        if (!table.ranges.empty()) rows += std::uint64_t(table.parts.front().rows) * table.parts.size();
    return rows;
}

std::uint64_t RowMemory::least_bytes(std::uint32_t rows_per_step) const {
    std::uint64_t picks = 0;
    for (const Table& table : tables_)
        if (!table.ranges.empty()) picks += table.picks;
    return std::min(picks * rows_per_step, rows()) * each_bytes() + picked_bytes(rows_per_step);
}

std::uint64_t RowMemory::most_bytes(std::uint32_t rows_per_step) const {
    return rows() * each_bytes() + picked_bytes(rows_per_step);
}

Status RowMemory::start(Options options) {
    CHECK(!started() && bytes_ > 0 && options.rows_per_step > 0);
    const std::uint64_t least = least_bytes(options.rows_per_step),
                        picked = picked_bytes(options.rows_per_step);
    if (options.bytes < least)
        return fail(Fault::invalid_input, "the rows of tables that one step looks up take " +
                                              std::to_string((least >> 20) + 1) +
                                              " MiB, and --expert-memory gives them " +
                                              std::to_string(options.bytes >> 20) + " MiB: give them more");
    slot_bytes_ = slot_bytes();
    constexpr std::uint64_t most_slots = std::uint64_t{1} << 31;
    const std::uint64_t slots = std::min({(options.bytes - picked) / each_bytes(), rows(), most_slots});
    const std::uint64_t buckets = std::bit_ceil(slots);
    memory_ = TRY(PinnedMemory::make(slots * slot_bytes_, "rows of tables"));
    index_ =
        TRY(PinnedMemory::make(slots * sizeof(Slot) + buckets * sizeof(std::uint32_t), "rows of tables"));
    auto* const first = reinterpret_cast<Slot*>(index_.data());  // zero, which is a Slot that holds nothing
    slots_ = {first, slots};
    buckets_ = {reinterpret_cast<std::uint32_t*>(first + slots), buckets};
    std::uint32_t most_picks = 0;
    for (Table& table : tables_) {
        if (table.ranges.empty()) continue;
        const std::size_t picks = std::size_t(options.rows_per_step) * table.picks;
        table.slots.resize(picks);
        table.their_parts.resize(picks * table.part_bytes);
        most_picks = std::max(most_picks, std::uint32_t(picks));
    }
    first_.resize(most_picks);
    std::iota(first_.begin(), first_.end(), 0u);
    least_slots_ = std::uint32_t((least - picked) / each_bytes());
    usable_slots_ = std::uint32_t(slots);
    watch_.emplace(std::move(options.watch));
    readers_.start();
    return Done{};
}

DiskCounters RowMemory::counters() const {
    const auto lock = readers_.lock();
    return counters_;
}

std::uint64_t RowMemory::usable_bytes() const {
    const auto lock = readers_.lock();
    return usable_slots_ * each_bytes();
}

// ---- between two launches

void RowMemory::begin(Backend& backend, std::uint32_t table, Address picked, std::uint32_t count) {
    if (tables_[table].ranges.empty() || count == 0) return;
    CHECK(count <= tables_[table].slots.size());
    backend.call(*this, Call{Call::Kind::begin, table, count, picked.value});
}

std::optional<RowMemory::Rows> RowMemory::before_lookup(Backend& backend, std::uint32_t table, Address picked,
                                                        std::uint32_t count) {
    if (tables_[table].ranges.empty() || count == 0) return {};
    backend.call(*this, Call{Call::Kind::finish, table, count, picked.value});
    const auto address = [](const void* at) { return Address{reinterpret_cast<std::uintptr_t>(at)}; };
    return Rows{address(tables_[table].their_parts.data()), address(first_.data())};
}

void RowMemory::between_launches(Bytes args) {
    Call call;
    CHECK(args.size() == sizeof call);
    std::memcpy(&call, args.data(), sizeof call);
    const std::span picked(reinterpret_cast<const std::uint32_t*>(call.picked), call.count);
    if (call.kind == Call::Kind::begin) return begin_rows(call.table, picked);
    finish_rows(tables_[call.table], picked);
}

void RowMemory::begin_rows(std::uint32_t table, std::span<const std::uint32_t> picked) {
    {
        const auto lock = readers_.lock();
        // All that was begun is finished, and all launches behind it: what they needed is free.
        if (begun_ == 0) {
            ++step_;
            heed_the_machine();
        }
        ++begun_;
        for (std::size_t i = 0; i < picked.size(); ++i) tables_[table].slots[i] = ask(table, picked[i]);
    }
    readers_.wake();
}

/// Afterwards a lookup can read the rows' parts.
void RowMemory::finish_rows(Table& table, std::span<const std::uint32_t> picked) {
    {
        auto lock = readers_.lock();
        while (table.waiting > 0) readers_.wait(lock);
        --begun_;
    }
    with_product(table.parts.front(), [&]<typename Args>(const Product<Args>& product) {
        CHECK(sizeof(typename Args::Part) == table.part_bytes);
        for (std::size_t i = 0; i < picked.size(); ++i) {
            Weight row = row_of(table, picked[i]);
            const std::uint32_t slot = table.slots[i];
            if (slot != none && slots_[slot].state == Slot::State::present) {
                std::uint64_t at = reinterpret_cast<std::uintptr_t>(memory_of(slot));
                for (const Weight::Range& range : table.ranges) {
                    row.*range.place = Address{at};
                    at += aligned(range.bytes);
                }
            }
            typename Args::Part part{};
            set_weight(product.args, part, row);
            std::memcpy(table.their_parts.data() + i * sizeof part, &part, sizeof part);
        }
    });
}

Weight RowMemory::row_of(const Table& table, std::uint32_t row) {
    const std::uint32_t part_rows = table.parts.front().rows;
    return table.parts[row / part_rows].row(row % part_rows);
}

/// Its bucket's first slot. Source of the mixing: the finaliser of splitmix64.
std::uint32_t& RowMemory::bucket_of(std::uint32_t table, std::uint32_t row) const {
    std::uint64_t mixed = std::uint64_t(table) << 32 | row;
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBu;
    return buckets_[(mixed ^ (mixed >> 31)) & (buckets_.size() - 1)];
}

/// The slot of a row, which is being read if it was not there; none: there is no place for it.
std::uint32_t RowMemory::ask(std::uint32_t table, std::uint32_t row) {
    for (std::uint32_t link = bucket_of(table, row); link != 0; link = slots_[link - 1].next) {
        Slot& slot = slots_[link - 1];
        if (slot.row != row || slot.table != table) continue;
        if (std::exchange(slot.step, step_) != step_) {
            ++counters_.found;
            slot.uses = std::min<std::uint8_t>(slot.uses + 1, uses_most);
        }
        return link - 1;
    }
    ++counters_.read;
    const std::uint32_t number = take_slot();
    if (number == none) return none;
    std::uint32_t& bucket = bucket_of(table, row);
    slots_[number] = {.row = row,
                      .next = bucket,
                      .step = step_,
                      .table = std::uint16_t(table),
                      .uses = 0,
                      .state = Slot::State::reading};
    bucket = number + 1;
    ++tables_[table].waiting;
    readers_.begin(*this, number);
    return number;
}

/// As in ExpertMemory: the hand goes round and counts uses down. None where this step needs them all.
std::uint32_t RowMemory::take_slot() {
    if (used_slots_ < usable_slots_) return used_slots_++;
    for (std::uint64_t i = 0; i < (uses_most + 2ull) * usable_slots_; ++i) {
        const std::uint32_t number = hand_;
        hand_ = hand_ + 1 < usable_slots_ ? hand_ + 1 : 0;
        Slot& slot = slots_[number];
        if (slot.step == step_) continue;
        if (slot.uses > 0) {
            --slot.uses;
            continue;
        }
        forget(number);
        return number;
    }
    return none;
}

void RowMemory::forget(std::uint32_t number) {
    Slot& slot = slots_[number];
    std::uint32_t* link = &bucket_of(slot.table, slot.row);
    while (*link != number + 1) link = &slots_[*link - 1].next;
    *link = slot.next;
    slot = {};
}

/// Gives memory back when the machine has little left, and takes it again when it has much. Between steps:
/// nothing is being read.
void RowMemory::heed_the_machine() {
    const MachineWatch::Advice advice = watch_->look();
    const auto share = std::max<std::uint32_t>(1, std::uint32_t(slots_.size() / 8));
    if (advice == MachineWatch::Advice::shrink && usable_slots_ > least_slots_) {
        const std::uint32_t left = std::max(least_slots_, usable_slots_ - std::min(share, usable_slots_));
        for (std::uint32_t slot = left; slot < used_slots_; ++slot) forget(slot);
        log_info("memory is short: that for rows of tables shrinks to " +
                 std::to_string(left * each_bytes() >> 20) + " MiB");
        memory_.give_back(left * slot_bytes_, (usable_slots_ - left) * slot_bytes_);
        usable_slots_ = left;
        used_slots_ = std::min(used_slots_, left);
        if (hand_ >= usable_slots_) hand_ = 0;
    } else if (advice == MachineWatch::Advice::grow && usable_slots_ < slots_.size()) {
        usable_slots_ = std::uint32_t(std::min<std::size_t>(slots_.size(), usable_slots_ + share));
    }
}

// ---- on the readers' threads

Result<bool> RowMemory::read_part(std::uint32_t number) {
    const Slot& slot = slots_[number];
    const Table& table = tables_[slot.table];
    const Weight row = row_of(table, slot.row);
    std::byte* to = memory_of(number);
    for (const Weight::Range& range : table.ranges) {
        const Address place = row.*range.place;
        std::byte* const blocks = room_for_blocks(DiskFiles::padded(range.bytes));
        const Result<bool> well = readers_.files().read(place, range.bytes, blocks);
        if (!well) std::memset(memory_of(number), 0, slot_bytes_);
        if (!well || !*well) return well;
        std::memcpy(to, blocks + readers_.files().within(place), range.bytes);
        to += aligned(range.bytes);
    }
    return true;
}

bool RowMemory::part_is_read(std::uint32_t number, bool in_memory) {
    Slot& slot = slots_[number];
    Table& table = tables_[slot.table];
    slot.state = in_memory ? Slot::State::present : Slot::State::mapped;
    if (in_memory) counters_.bytes_read += table.row_bytes;
    if (!in_memory && !std::exchange(warned_, true))
        log_warning("rows of tables cannot be read from their file, and are used where it is mapped");
    return --table.waiting == 0;
}

}  // namespace kapitsa

#include "model/expert_memory.h"

#include <algorithm>
#include <cstring>

#include "base/log.h"
#include "kernels/experts.h"
#include "model/products.h"

namespace kapitsa {
namespace {

constexpr std::uint8_t uses_most = 7;

}  // namespace

// ---- what there is
// -----------------------------------------------------------------------------------------

std::uint32_t ExpertMemory::add(const std::string& layer, std::span<const Weight> matrices, Address parts,
                                std::size_t part_bytes) {
    CHECK(!started() && !matrices.empty());
    const auto number = std::uint32_t(stacks_.size());
    if (layers_.empty() || layers_.back().name != layer)
        layers_.push_back({.name = layer, .first_stack = number, .stacks = 0});
    ++layers_.back().stacks;
    Stack stack{.layer = std::uint32_t(layers_.size() - 1),
                .first = std::uint32_t(entries_.size()),
                .matrices = {matrices.begin(), matrices.end()},
                .ranges = {},
                .parts = parts.value,
                .part_bytes = part_bytes};
    // What is no part of a file (a tensor that had to be copied, factors) is in memory already.
    for (const Weight::Range& range : matrices.front().ranges())
        if (range.bytes > 0 && std::ranges::all_of(matrices, [&](const Weight& matrix) {
                return readers_.files().hold(matrix.*range.place);
            }))
            stack.ranges.push_back(range);
    for (const Weight::Range& range : stack.ranges) bytes_ += range.bytes * matrices.size();
    entries_.resize(entries_.size() + matrices.size(), Entry{.stack = number});
    stacks_.push_back(std::move(stack));
    return number;
}

/// Wherever its ranges begin in their blocks.
std::uint64_t ExpertMemory::padded_bytes(const Stack& stack) {
    std::uint64_t bytes = 0;
    for (const Weight::Range& range : stack.ranges) bytes += DiskFiles::padded(range.bytes);
    return bytes;
}

std::uint64_t ExpertMemory::slot_bytes() const {
    std::uint64_t most = 0;
    for (const Stack& stack : stacks_) most = std::max(most, padded_bytes(stack));
    return most;
}

std::uint64_t ExpertMemory::least_bytes() const {
    std::uint64_t most = 0;
    for (const Layer& layer : layers_) {
        std::uint64_t matrices = 0;
        for (std::uint32_t s = layer.first_stack; s < layer.first_stack + layer.stacks; ++s)
            if (!stacks_[s].ranges.empty()) matrices += stacks_[s].matrices.size();
        most = std::max(most, matrices);
    }
    return most * slot_bytes();
}

Status ExpertMemory::start(Options options) {
    CHECK(!started() && bytes_ > 0);
    const std::uint64_t least = least_bytes();
    if (options.bytes < least)
        return fail(Fault::invalid_input, "the experts of one layer take " +
                                              std::to_string((least >> 20) + 1) +
                                              " MiB, and --expert-memory gives them " +
                                              std::to_string(options.bytes >> 20) + " MiB: give them more");
    slot_bytes_ = slot_bytes();
    CHECK(slot_bytes_ > 0);
    const std::uint64_t slots = std::min<std::uint64_t>(options.bytes / slot_bytes_, entries_.size());
    memory_ = TRY(PinnedMemory::make(slots * slot_bytes_, "experts"));
    slots_.assign(slots, none);
    usable_slots_ = std::uint32_t(slots);
    least_slots_ = std::uint32_t(least / slot_bytes_);
    std::size_t most_experts = 0;
    for (const Stack& stack : stacks_) most_experts = std::max(most_experts, stack.matrices.size());
    experts_.reserve(most_experts);
    for (std::uint32_t e = 0; e < most_experts; ++e) all_experts_.push_back(e);
    watch_.emplace(std::move(options.watch));
    readers_.start();
    return Done{};
}

DiskCounters ExpertMemory::counters() const {
    const auto lock = readers_.lock();
    return counters_;
}

std::uint64_t ExpertMemory::usable_bytes() const {
    const auto lock = readers_.lock();
    return usable_slots_ * slot_bytes_;
}

// ---- between two launches
// ----------------------------------------------------------------------------------

void ExpertMemory::before_launch(Backend& backend, std::span<const std::uint32_t> stacks, Address groups,
                                 std::uint32_t count) {
    Needs needs{.stacks = {},
                .stack_count = std::uint32_t(stacks.size()),
                .group_count = count,
                .groups = groups.value};
    CHECK(stacks.size() <= std::size(needs.stacks));
    std::ranges::copy(stacks, needs.stacks);
    backend.call(*this, needs);
}

void ExpertMemory::between_launches(Bytes args) {
    Needs needs;
    CHECK(args.size() == sizeof needs);
    std::memcpy(&needs, args.data(), sizeof needs);
    experts_.clear();
    const auto* groups = reinterpret_cast<const ExpertGroup*>(needs.groups);
    for (std::uint32_t g = 0; g < needs.group_count && groups[g].rows > 0; ++g)
        experts_.push_back(groups[g].expert);

    const std::span<const std::uint32_t> stacks(needs.stacks, needs.stack_count);
    auto lock = readers_.lock();
    ++call_;
    heed_the_machine();
    fetch(stacks, experts_, lock);
    read_ahead(std::ranges::max(stacks), experts_);
    lock.unlock();
    readers_.wake();
}

/// Afterwards the device can read the matrices.
void ExpertMemory::fetch(std::span<const std::uint32_t> stacks, std::span<const std::uint32_t> experts,
                         DiskReaders::Lock& lock) {
    const auto for_each = [&](auto then) {
        for (const std::uint32_t s : stacks)
            if (!stacks_[s].ranges.empty())
                for (const std::uint32_t expert : experts) then(stacks_[s].first + expert);
    };
    // All are marked before the first is given a place, which must not be that of another.
    for_each([&](std::uint32_t e) { entries_[e].needed = call_; });
    for_each([&](std::uint32_t e) {
        Entry& entry = entries_[e];
        entry.uses = std::min<std::uint8_t>(entry.uses + 1, uses_most);
        ++(entry.state == Entry::State::present ? counters_.found : counters_.read);
        if (entry.state == Entry::State::reading) {
            // It was begun ahead, and may wait behind others of its kind.
            readers_.hurry(*this, e);
        } else if (entry.state == Entry::State::absent) {
            // What is being read ahead may hold the last places for a moment.
            for (; (entry.slot = take_slot(false)) == none; readers_.wake()) readers_.wait(lock);
            slots_[entry.slot] = e;
            entry.state = Entry::State::reading;
            readers_.begin(*this, e);
        }
    });
    readers_.wake();
    for_each([&](std::uint32_t e) {
        while (entries_[e].state == Entry::State::reading) readers_.wait(lock);
        if (entries_[e].state == Entry::State::present && !entries_[e].pointed_at) point(e, true);
    });
}

/// The same rows come to the layer's other matrices with the same experts. Many rows come to nearly all
/// experts of the next layer.
void ExpertMemory::read_ahead(std::uint32_t after, std::span<const std::uint32_t> experts) {
    const Layer& layer = layers_[stacks_[after].layer];
    const std::uint32_t end = layer.first_stack + layer.stacks;
    for (std::uint32_t s = after + 1; s < end; ++s) begin_ahead(s, experts);
    const bool many = experts.size() * 2 > stacks_[after].matrices.size();
    if (!many || after + 1 < end || end >= stacks_.size()) return;
    const Layer& next = layers_[stacks_[end].layer];
    for (std::uint32_t s = end; s < end + next.stacks; ++s)
        begin_ahead(s, std::span(all_experts_).first(stacks_[s].matrices.size()));
}

void ExpertMemory::begin_ahead(std::uint32_t stack, std::span<const std::uint32_t> experts) {
    if (stacks_[stack].ranges.empty()) return;
    for (const std::uint32_t expert : experts) {
        const std::uint32_t e = stacks_[stack].first + expert;
        Entry& entry = entries_[e];
        if (entry.state != Entry::State::absent) {
            entry.needed = call_;  // not to be given up for one that is read ahead, too
            continue;
        }
        const std::uint32_t slot = take_slot(true);
        if (slot == none) return;
        entry.slot = slot;
        entry.needed = call_;
        slots_[slot] = e;
        entry.state = Entry::State::reading;
        readers_.begin_ahead(*this, e);
    }
}

/// A place, free now, of a matrix that nobody needs: the hand goes round and counts their uses down, and
/// takes the first that has none left. `only_unused`: it goes round once, and counts nothing down. None when
/// that does not help.
std::uint32_t ExpertMemory::take_slot(bool only_unused) {
    const std::uint32_t rounds = only_unused ? 1 : uses_most + 2;
    for (std::uint64_t i = 0; i < std::uint64_t(rounds) * usable_slots_; ++i) {
        const std::uint32_t slot = hand_;
        hand_ = hand_ + 1 < usable_slots_ ? hand_ + 1 : 0;
        if (slots_[slot] == none) return slot;
        Entry& entry = entries_[slots_[slot]];
        if (entry.needed == call_ || entry.state == Entry::State::reading) continue;
        if (entry.uses > 0) {
            if (!only_unused) --entry.uses;
            continue;
        }
        evict(slot);
        return slot;
    }
    return none;
}

void ExpertMemory::evict(std::uint32_t slot) {
    const std::uint32_t e = std::exchange(slots_[slot], none);
    Entry& entry = entries_[e];
    if (entry.pointed_at) point(e, false);
    entry.state = Entry::State::absent;
    entry.slot = none;
}

/// Writes the addresses that the device reads: those of the matrix in memory, or of the mapping.
void ExpertMemory::point(std::uint32_t e, bool at_memory) {
    Entry& entry = entries_[e];
    const Stack& stack = stacks_[entry.stack];
    const std::uint32_t expert = e - stack.first;
    Weight matrix = stack.matrices[expert];
    std::uint64_t used = reinterpret_cast<std::uintptr_t>(at_memory ? memory_of(entry.slot) : nullptr);
    if (at_memory)
        for (const Weight::Range& range : stack.ranges) {
            Address& place = matrix.*range.place;
            const std::uint64_t within = readers_.files().within(place);
            place = Address{used + within};
            used += DiskFiles::up(within + range.bytes);
        }
    with_product(matrix, [&]<typename Args>(const Product<Args>& product) {
        typename Args::Part part{};
        CHECK(sizeof part == stack.part_bytes);
        set_weight(product.args, part, matrix);
        std::memcpy(reinterpret_cast<void*>(stack.parts + expert * sizeof part), &part, sizeof part);
    });
    entry.pointed_at = at_memory;
}

/// Gives memory back when the machine has little left, and takes it again when it has much.
void ExpertMemory::heed_the_machine() {
    const MachineWatch::Advice advice = watch_->look();
    const auto share = std::max<std::uint32_t>(1, std::uint32_t(slots_.size() / 8));
    if (advice == MachineWatch::Advice::shrink && usable_slots_ > least_slots_) {
        const std::uint32_t left = std::max(least_slots_, usable_slots_ - std::min(share, usable_slots_));
        for (std::uint32_t slot = left; slot < usable_slots_; ++slot) {
            if (slots_[slot] == none) continue;
            if (entries_[slots_[slot]].state == Entry::State::reading) return;  // another time
            evict(slot);
        }
        log_info("memory is short: that for experts shrinks to " + std::to_string(left * slot_bytes_ >> 20) +
                 " MiB");
        memory_.give_back(left * slot_bytes_, (usable_slots_ - left) * slot_bytes_);
        usable_slots_ = left;
        if (hand_ >= usable_slots_) hand_ = 0;
    } else if (advice == MachineWatch::Advice::grow && usable_slots_ < slots_.size()) {
        usable_slots_ = std::uint32_t(std::min<std::size_t>(slots_.size(), usable_slots_ + share));
    }
}

// ---- the readers
// -------------------------------------------------------------------------------------------

/// Whole blocks, one range behind the other.
Result<bool> ExpertMemory::read_part(std::uint32_t e) {
    const Entry& entry = entries_[e];
    const Stack& stack = stacks_[entry.stack];
    const Weight& matrix = stack.matrices[e - stack.first];
    std::byte* to = memory_of(entry.slot);
    for (const Weight::Range& range : stack.ranges) {
        const Address place = matrix.*range.place;
        const Result<bool> well = readers_.files().read(place, range.bytes, to);
        if (!well) std::memset(memory_of(entry.slot), 0, slot_bytes_);
        if (!well || !*well) return well;
        to += DiskFiles::up(readers_.files().within(place) + range.bytes);
    }
    return true;
}

bool ExpertMemory::part_is_read(std::uint32_t e, bool in_memory) {
    Entry& entry = entries_[e];
    entry.state = Entry::State::present;
    for (const Weight::Range& range : stacks_[entry.stack].ranges) counters_.bytes_read += range.bytes;
    if (in_memory) return true;
    if (!std::exchange(warned_, true))
        log_warning("experts cannot be read from their file, and are used where it is mapped");
    evict(entry.slot);
    return true;
}

}  // namespace kapitsa

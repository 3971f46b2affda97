#include "model/expert_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>

#include "base/log.h"
#include "formats/regular_file.h"
#include "kernels/experts.h"
#include "model/products.h"

namespace kapitsa {
namespace {

constexpr std::uint64_t block = 4096;  // what reads past the page cache are aligned to
constexpr std::uint8_t uses_most = 7;

std::uint64_t down(std::uint64_t bytes) { return bytes / block * block; }
std::uint64_t up(std::uint64_t bytes) { return down(bytes + block - 1); }

}  // namespace

struct ExpertMemory::File {
    std::uint64_t begin = 0, end = 0;  // addresses of the mapping
    const MappedFile* mapped = nullptr;
    std::unique_ptr<RegularFile> file = nullptr;  // by which it is read; null: it cannot be

    void open() {
        auto opened = RegularFile::open(mapped->path());
        if (!opened || opened->identity() != mapped->identity()) return;
        (void)opened->bypass_cache();  // where it cannot be, the cache does no harm but to others
        file = std::make_unique<RegularFile>(std::move(*opened));
    }
};

MachineMemory machine_memory() {
    MachineMemory memory;
    std::ifstream file("/proc/meminfo");
    std::string name, unit;
    for (std::uint64_t kibibytes = 0; file >> name >> kibibytes; std::getline(file, unit)) {
        if (name == "MemTotal:") memory.total = kibibytes << 10;
        if (name == "MemAvailable:") memory.available = kibibytes << 10;
    }
    return memory;
}

ExpertMemory::ExpertMemory(std::span<const MappedFile> files) {
    for (const MappedFile& mapped : files) {
        const auto begin = reinterpret_cast<std::uintptr_t>(mapped.bytes().data());
        files_.push_back({.begin = begin, .end = begin + mapped.bytes().size(), .mapped = &mapped});
    }
    std::ranges::sort(files_, {}, &File::begin);
}

ExpertMemory::~ExpertMemory() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    wanted_.notify_all();
    for (std::thread& reader : readers_) reader.join();
    if (memory_) ::munmap(memory_, memory_bytes_);
}

// ---- what there is
// -----------------------------------------------------------------------------------------

const ExpertMemory::File* ExpertMemory::file_of(Address address) const {
    const auto after = std::ranges::upper_bound(files_, address.value, {}, &File::begin);
    if (after == files_.begin()) return nullptr;
    const File& file = *std::prev(after);
    return address.value < file.end ? &file : nullptr;
}

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
                return file_of(matrix.*range.place) != nullptr;
            }))
            stack.ranges.push_back(range);
    for (const Weight::Range& range : stack.ranges) bytes_ += range.bytes * matrices.size();
    entries_.resize(entries_.size() + matrices.size(), Entry{.stack = number});
    stacks_.push_back(std::move(stack));
    return number;
}

/// Wherever its ranges begin in their blocks.
std::uint64_t ExpertMemory::padded_bytes(const Stack& stack) const {
    std::uint64_t bytes = 0;
    for (const Weight::Range& range : stack.ranges) bytes += up(range.bytes) + block;
    return bytes;
}

std::uint64_t ExpertMemory::least_bytes() const {
    std::uint64_t slot = 0, most = 0;
    for (const Stack& stack : stacks_) slot = std::max(slot, padded_bytes(stack));
    for (const Layer& layer : layers_) {
        std::uint64_t matrices = 0;
        for (std::uint32_t s = layer.first_stack; s < layer.first_stack + layer.stacks; ++s)
            if (!stacks_[s].ranges.empty()) matrices += stacks_[s].matrices.size();
        most = std::max(most, matrices);
    }
    return most * slot;
}

Status ExpertMemory::start(Options options) {
    CHECK(!started() && bytes_ > 0);
    const std::uint64_t least = least_bytes();
    if (options.bytes < least)
        return fail(Fault::invalid_input, "the experts of one layer take " +
                                              std::to_string((least >> 20) + 1) +
                                              " MiB, and --expert-memory gives them " +
                                              std::to_string(options.bytes >> 20) + " MiB: give them more");
    for (const Stack& stack : stacks_) slot_bytes_ = std::max(slot_bytes_, padded_bytes(stack));
    const std::uint64_t slots = std::min<std::uint64_t>(options.bytes / slot_bytes_, entries_.size());
    memory_bytes_ = slots * slot_bytes_;
    void* at = ::mmap(nullptr, memory_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return fail(Fault::out_of_memory, "the system did not give " + std::to_string(memory_bytes_ >> 20) +
                                              " MiB for experts: --expert-memory sets how much they have");
    memory_ = static_cast<std::byte*>(at);
#if defined(MLOCK_ONFAULT)
    if (::mlock2(memory_, memory_bytes_, MLOCK_ONFAULT) != 0)
        log_debug("the memory for experts is not pinned: " + std::string(std::strerror(errno)));
#endif
    for (File& file : files_) file.open();
    slots_.assign(slots, none);
    usable_slots_ = std::uint32_t(slots);
    least_slots_ = std::uint32_t(least / slot_bytes_);
    std::size_t most_experts = 0;
    for (const Stack& stack : stacks_) most_experts = std::max(most_experts, stack.matrices.size());
    experts_.reserve(most_experts);
    for (std::uint32_t e = 0; e < most_experts; ++e) all_experts_.push_back(e);
    options_ = std::move(options);
    looked_ = std::chrono::steady_clock::now();
    for (std::uint32_t i = 0; i < std::max(1u, options_.readers); ++i)
        readers_.emplace_back([this] { read_entries(); });
    return Done{};
}

ExpertCounters ExpertMemory::counters() const {
    const std::lock_guard lock(mutex_);
    return counters_;
}

std::uint64_t ExpertMemory::usable_bytes() const {
    const std::lock_guard lock(mutex_);
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
    std::unique_lock lock(mutex_);
    ++call_;
    heed_the_machine();
    fetch(stacks, experts_, lock);
    read_ahead(std::ranges::max(stacks), experts_);
    lock.unlock();
    wanted_.notify_all();
}

/// Afterwards the device can read the matrices.
void ExpertMemory::fetch(std::span<const std::uint32_t> stacks, std::span<const std::uint32_t> experts,
                         std::unique_lock<std::mutex>& lock) {
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
            if (std::erase(ahead_, e) > 0) urgent_.push_back(e);
        } else if (entry.state == Entry::State::absent) {
            // What is being read ahead may hold the last places for a moment.
            for (; (entry.slot = take_slot(false)) == none; wanted_.notify_all()) done_.wait(lock);
            slots_[entry.slot] = e;
            entry.state = Entry::State::reading;
            urgent_.push_back(e);
        }
    });
    wanted_.notify_all();
    for_each([&](std::uint32_t e) {
        done_.wait(lock, [&] { return entries_[e].state != Entry::State::reading; });
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
        ahead_.push_back(e);
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
            const std::uint64_t within = (place.value - file_of(place)->begin) % block;
            place = Address{used + within};
            used += up(within + range.bytes);
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
    const auto now = std::chrono::steady_clock::now();
    if (now - looked_ < options_.look_interval) return;
    looked_ = now;
    const MachineMemory machine = options_.machine();
    if (machine.total == 0) return;
    const auto share = std::max<std::uint32_t>(1, std::uint32_t(slots_.size() / 8));
    if (machine.available < machine.total / 20 && usable_slots_ > least_slots_) {
        const std::uint32_t left = std::max(least_slots_, usable_slots_ - std::min(share, usable_slots_));
        for (std::uint32_t slot = left; slot < usable_slots_; ++slot) {
            if (slots_[slot] == none) continue;
            if (entries_[slots_[slot]].state == Entry::State::reading) return;  // another time
            evict(slot);
        }
        log_info("memory is short: that for experts shrinks to " + std::to_string(left * slot_bytes_ >> 20) +
                 " MiB");
        const std::uint64_t bytes = (usable_slots_ - left) * slot_bytes_;
#if defined(MLOCK_ONFAULT)
        ::munlock(memory_of(left), bytes);
#endif
        ::madvise(memory_of(left), bytes, MADV_DONTNEED);
        usable_slots_ = left;
        if (hand_ >= usable_slots_) hand_ = 0;
    } else if (machine.available > machine.total / 5 && usable_slots_ < slots_.size()) {
        usable_slots_ = std::uint32_t(std::min<std::size_t>(slots_.size(), usable_slots_ + share));
    }
}

// ---- the readers
// -------------------------------------------------------------------------------------------

void ExpertMemory::read_entries() {
    std::unique_lock lock(mutex_);
    for (;;) {
        wanted_.wait(lock, [&] { return stopping_ || !urgent_.empty() || !ahead_.empty(); });
        if (stopping_) return;
        auto& queue = urgent_.empty() ? ahead_ : urgent_;
        const std::uint32_t e = queue.front();
        queue.pop_front();
        Entry& entry = entries_[e];
        const Stack& stack = stacks_[entry.stack];
        std::byte* to = memory_of(entry.slot);
        lock.unlock();
        const bool well = read(stack.matrices[e - stack.first], stack, to);
        lock.lock();
        entry.state = Entry::State::present;
        for (const Weight::Range& range : stack.ranges) counters_.bytes_read += range.bytes;
        if (!well) {
            if (!std::exchange(warned_, true))
                log_warning("experts cannot be read from their file, and are used where it is mapped");
            evict(entry.slot);
        }
        done_.notify_all();
    }
}

/// Whole blocks, one range behind the other. @return false: the system did not read it
bool ExpertMemory::read(const Weight& matrix, const Stack& stack, std::byte* to) const {
    for (const Weight::Range& range : stack.ranges) {
        const Address place = matrix.*range.place;
        const File& file = *file_of(place);
        if (!file.file) return false;
        const std::uint64_t offset = place.value - file.begin, begin = down(offset),
                            wanted = offset + range.bytes - begin;
        for (std::uint64_t done = 0; done < wanted;) {
            const ssize_t count = ::pread(file.file->descriptor(), to + done, up(wanted) - done,
                                          static_cast<off_t>(begin + done));
            if (count < 0 && errno == EINTR) continue;
            if (count <= 0 || (done + std::uint64_t(count) < wanted && count % block != 0)) return false;
            done += std::uint64_t(count);
        }
        to += up(wanted);
    }
    return true;
}

}  // namespace kapitsa

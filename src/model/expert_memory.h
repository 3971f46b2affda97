// The experts of a model that is larger than memory. Their matrices stay in the checkpoint's files; those
// that were asked for lately lie in memory of a fixed size, pinned where the system lets us, and counted: the
// more often one was asked for, the longer it stays. Which ones a step needs is known only between two of its
// launches. The host then reads what is missing, with several threads and past the system's page cache, and
// begins to read what the same rows will ask for next.
//
// A matrix in memory has the bytes of its file, so no result depends on how much memory there is. What cannot
// be read this way is used where it is mapped. When the machine runs short, memory is given back.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "model/disk_readers.h"
#include "model/machine_memory.h"
#include "model/runner.h"
#include "model/weight.h"

namespace kapitsa {

class ExpertMemory final : public HostWork, private DiskReads {
public:
    struct Options {
        std::uint64_t bytes = 0;  // rounded down to whole matrices; at least least_bytes()
        MachineWatch::Options watch = {};
    };

    /// `readers` must outlive this.
    explicit ExpertMemory(DiskReaders& readers) : readers_(readers) {}
    ~ExpertMemory() override { readers_.stop(); }

    /// Makes one kind of matrix of a layer's experts known. `parts`: where the device reads their addresses,
    /// `part_bytes` each; they are those of the mapping now, and may be changed by this later. @return the
    /// number of the stack
    std::uint32_t add(const std::string& layer, std::span<const Weight> matrices, Address parts,
                      std::size_t part_bytes);

    /// Of all matrices that are known and lie in files.
    std::uint64_t bytes() const { return bytes_; }
    /// What a launch may ask for at once: the experts of the largest layer.
    std::uint64_t least_bytes() const;
    /// With so much all lie in memory.
    std::uint64_t most_bytes() const { return slot_bytes() * entries_.size(); }

    /// Before the first step. Fault::invalid_input when the bytes are too few, with the least that would do.
    Status start(Options options);
    bool started() const { return !slots_.empty(); }

    /// Records that the next launch reads matrices of these stacks, of the experts in `groups` (ExpertGroup
    /// [count] on the device).
    void before_launch(Backend& backend, std::span<const std::uint32_t> stacks, Address groups,
                       std::uint32_t count);

    DiskCounters counters() const;
    /// That can be used now: less than it began with where the machine ran short.
    std::uint64_t usable_bytes() const;

private:
    static constexpr std::uint32_t none = ~std::uint32_t{0};

    struct Stack {
        std::uint32_t layer, first;  // its first entry
        std::vector<Weight> matrices;
        std::vector<Weight::Range> ranges;  // that lie in files; alike for all
        std::uint64_t parts, part_bytes;
    };
    struct Layer {
        std::string name;
        std::uint32_t first_stack, stacks;
    };
    /// A matrix.
    struct Entry {
        enum class State : std::uint8_t { absent, reading, present } state = State::absent;
        bool pointed_at = false;    // the device reads it in memory
        std::uint8_t uses = 0;      // counted up when it is asked for, down when its place is wanted
        std::uint32_t slot = none;  // its place in memory
        std::uint32_t stack = 0;
        std::uint64_t needed = 0;  // by which call, the last time
    };
    struct Needs {
        std::uint32_t stacks[4];
        std::uint32_t stack_count, group_count;
        std::uint64_t groups;
    };

    void between_launches(Bytes args) override;
    Result<bool> read_part(std::uint32_t entry) override;
    bool part_is_read(std::uint32_t entry, bool in_memory) override;
    void fetch(std::span<const std::uint32_t> stacks, std::span<const std::uint32_t> experts,
               DiskReaders::Lock& lock);
    void read_ahead(std::uint32_t after, std::span<const std::uint32_t> experts);
    void begin_ahead(std::uint32_t stack, std::span<const std::uint32_t> experts);
    std::uint32_t take_slot(bool only_unused);
    void evict(std::uint32_t slot);
    void point(std::uint32_t entry, bool at_memory);
    void heed_the_machine();
    static std::uint64_t padded_bytes(const Stack& stack);
    std::uint64_t slot_bytes() const;
    std::byte* memory_of(std::uint32_t slot) const { return memory_.data() + slot * slot_bytes_; }

    DiskReaders& readers_;
    std::vector<Layer> layers_;
    std::vector<Stack> stacks_;
    std::vector<Entry> entries_;
    std::uint64_t bytes_ = 0;

    PinnedMemory memory_;
    std::optional<MachineWatch> watch_;  // once started
    std::uint64_t slot_bytes_ = 0;
    std::uint32_t least_slots_ = 0, usable_slots_ = 0;
    std::vector<std::uint32_t> slots_;  // [slots] the entry in each, or none; those beyond usable_slots_ are
                                        // given back
    std::uint32_t hand_ = 0;
    std::uint64_t call_ = 0;
    std::vector<std::uint32_t> experts_;  // of the current call; kept, so that a step allocates nothing
    std::vector<std::uint32_t> all_experts_;
    // With the readers' lock, as the entries' states are:
    bool warned_ = false;
    DiskCounters counters_;
};

}  // namespace kapitsa

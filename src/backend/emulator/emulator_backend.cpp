#define KERNEL_BODIES  // for Entry; no kernel file is read here
#include "backend/emulator/emulator_backend.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernels/dialect/emulator.h"

namespace kapitsa::emulator {
namespace {

const std::unordered_map<std::string_view, const Entry*>& entries() {
    static const auto table = [] {
        std::unordered_map<std::string_view, const Entry*> all;
        for (const auto of_file : {layer_entries(), product_entries()})
            for (const Entry& entry : of_file) {
                const bool is_new = all.emplace(entry.name, &entry).second;
                CHECK(is_new);
            }
        return all;
    }();
    return table;
}

/// Zeroed memory between pages that nobody may touch; what is asked for ends at the one behind, but for what
/// 16 bytes of alignment leave.
class Guarded {
public:
    static constexpr std::size_t alignment = 16;

    explicit Guarded(std::size_t bytes) {
        const auto page = std::size_t(::sysconf(_SC_PAGESIZE));
        const std::size_t inner = (bytes + page - 1) / page * page;
        bytes_ = inner + 2 * page;
        memory_ = ::mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory_ == MAP_FAILED) {
            memory_ = nullptr;
            return;
        }
        auto* begin = static_cast<std::byte*>(memory_) + page;
        if (inner > 0) CHECK(::mprotect(begin, inner, PROT_READ | PROT_WRITE) == 0);
        at_ = begin + (inner - bytes) / alignment * alignment;
    }
    Guarded(Guarded&& other) noexcept
        : memory_(std::exchange(other.memory_, nullptr)), at_(other.at_), bytes_(other.bytes_) {}
    Guarded& operator=(Guarded&&) = delete;
    ~Guarded() {
        if (memory_) ::munmap(memory_, bytes_);
    }

    explicit operator bool() const { return memory_ != nullptr; }
    std::byte* at() const { return at_; }

private:
    void* memory_ = nullptr;
    std::byte* at_ = nullptr;
    std::size_t bytes_ = 0;
};

class EmulatorBackend final : public Backend {
public:
    Device device() const override {
        const long pages = ::sysconf(_SC_PHYS_PAGES), page_bytes = ::sysconf(_SC_PAGE_SIZE);
        return {
            .name = "emulator",
            .description = "the kernels of GPUs, a fiber a thread",
            .memory_bytes = pages > 0 && page_bytes > 0 ? std::size_t(pages) * std::size_t(page_bytes) : 0,
            .shares_host_memory = true};
    }

    bool has(std::string_view kernel) const override { return entries().contains(kernel); }

    Result<Address> allocate(std::size_t bytes) override {
        Guarded memory(bytes);
        if (!memory)
            return fail(Fault::out_of_memory,
                        "the system did not give " + std::to_string(bytes >> 20) + " MiB");
        const Address address{reinterpret_cast<std::uint64_t>(memory.at())};
        memory_.push_back(std::move(memory));
        return address;
    }
    Result<Address> import(Bytes host) override {
        return Address{reinterpret_cast<std::uint64_t>(host.data())};
    }

    void write(Address to, Bytes from) override {
        CHECK(tape_.empty());
        if (!from.empty()) std::memcpy(reinterpret_cast<void*>(to.value), from.data(), from.size());
    }
    Status read(Address from, std::span<std::byte> to) override {
        CHECK(tape_.empty());
        if (!to.empty()) std::memcpy(to.data(), reinterpret_cast<const void*>(from.value), to.size());
        return Done{};
    }

    Status run() override {
        for (const Launch& launch : tape_) {
            if (!launch.entry) {
                launch.work->between_launches(launch.args);
                continue;
            }
            const Grid& grid = launch.grid;
            for (std::uint32_t z = 0; z < grid.z; ++z)
                for (std::uint32_t y = 0; y < grid.y; ++y)
                    for (std::uint32_t x = 0; x < grid.x; ++x)
                        launch.entry->run(fibers_, launch.entry->name, launch.args.data(), {x, y, z},
                                          grid.threads);
        }
        tape_.clear();
        return Done{};
    }

private:
    struct Launch {
        const Entry* entry;  // null: `work`
        HostWork* work;
        std::vector<std::byte> args;
        Grid grid;
    };

    void record(std::string_view kernel, Bytes args, const Grid& grid) override {
        const auto found = entries().find(kernel);
        CHECK(found != entries().end());
        tape_.push_back({found->second, nullptr, {args.begin(), args.end()}, grid});
    }
    void record_call(HostWork& work, Bytes args) override {
        tape_.push_back({nullptr, &work, {args.begin(), args.end()}, {}});
    }

    Group fibers_;
    std::vector<Guarded> memory_;
    std::vector<Launch> tape_;
};

}  // namespace

std::unique_ptr<Backend> open_emulator_backend() { return std::make_unique<EmulatorBackend>(); }

}  // namespace kapitsa::emulator

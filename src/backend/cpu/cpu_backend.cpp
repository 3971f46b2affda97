#include "backend/cpu/cpu_backend.h"

#include <sys/mman.h>
#include <unistd.h>

#include <hwy/targets.h>
#include <cstdlib>
#include <cstring>
#include <new>
#include <unordered_map>
#include <vector>

#include "backend/cpu/native.h"
#include "backend/cpu/pool.h"

namespace kapitsa::cpu {

void Scratch::Free::operator()(void* memory) const { std::free(memory); }

float* Scratch::floats(std::size_t count) {
    if (count > count_) {
        const std::size_t bytes = (count * sizeof(float) + 4095) / 4096 * 4096;
        memory_.reset(static_cast<float*>(std::aligned_alloc(64, bytes)));
        CHECK(memory_ != nullptr);
        count_ = bytes / sizeof(float);
    }
    return memory_.get();
}

namespace {

const std::unordered_map<std::string_view, const Native*>& natives() {
    static const auto table = [] {
        std::unordered_map<std::string_view, const Native*> all;
        for (const auto natives_of_file :
             {attend_natives(), choose_tokens_natives(), delta_chunks_natives(), delta_net_natives(),
              elementwise_natives(), embed_natives(), experts_natives(), mamba2_natives(),
              mamba2_chunks_natives(), multiply_affine_natives(), multiply_blocks_natives(),
              multiply_dense_natives(), ngrams_natives(), rms_norm_natives(), short_conv_natives(),
              sparse_attend_natives(), streams_natives(), unit_norm_natives()})
            for (const Native& native : natives_of_file) {
                const bool is_new = all.emplace(native.name, &native).second;
                CHECK(is_new);
            }
        return all;
    }();
    return table;
}

/// Work of the host as a launch of one unit: the worker that takes it does it.
struct alignas(16) Call {
    HostWork* work;
    std::size_t bytes;  // of its arguments, which follow
};
constexpr Native host_call{
    "", [](const void*) -> std::uint32_t { return 1; },
    [](const void* args, std::uint32_t, std::uint32_t, Scratch&) {
        const auto* call = static_cast<const Call*>(args);
        call->work->between_launches({reinterpret_cast<const std::byte*>(call + 1), call->bytes});
    }};

/// Zeroed memory straight from the system: a page costs nothing until it is touched.
class Mapping {
public:
    Mapping(void* at, std::size_t bytes) : at_(at), bytes_(bytes) {}
    Mapping(Mapping&& other) noexcept : at_(std::exchange(other.at_, nullptr)), bytes_(other.bytes_) {}
    Mapping& operator=(Mapping&&) = delete;
    ~Mapping() {
        if (at_) ::munmap(at_, bytes_);
    }

private:
    void* at_;
    std::size_t bytes_;
};

class CpuBackend final : public Backend {
public:
    CpuBackend(std::uint32_t threads, bool wide_sums) : pool_(threads), wide_sums_(wide_sums) {
        for (std::uint32_t worker = 0; worker < threads; ++worker) scratch_.emplace_back(wide_sums);
    }

    Device device() const override {
        const long pages = ::sysconf(_SC_PHYS_PAGES), page_bytes = ::sysconf(_SC_PAGE_SIZE);
        const auto target = hwy::SupportedTargets() & HWY_TARGETS;
        return {
            .name = wide_sums_ ? "cpu-f64" : "cpu",
            .description = std::to_string(pool_.workers()) +
                           (pool_.workers() == 1 ? " thread, " : " threads, ") +
                           hwy::TargetName(target & ~(target - 1)),
            .memory_bytes = pages > 0 && page_bytes > 0 ? std::size_t(pages) * std::size_t(page_bytes) : 0,
            .shares_host_memory = true};
    }

    bool has(std::string_view kernel) const override { return natives().contains(kernel); }

    Result<Address> allocate(std::size_t bytes) override {
        void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                          -1, 0);
        if (at == MAP_FAILED)
            return fail(Fault::out_of_memory,
                        "the system did not give " + std::to_string(bytes >> 20) + " MiB");
        memory_.emplace_back(at, bytes);
        return Address{reinterpret_cast<std::uint64_t>(at)};
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
        while (progress_.size() < tape_.size()) progress_.emplace_back();
        for (std::size_t i = 0; i < tape_.size(); ++i) {
            progress_[i].taken.store(0, std::memory_order_relaxed);
            progress_[i].done.store(0, std::memory_order_relaxed);
        }
        if (!tape_.empty()) pool_.run([this](std::uint32_t worker) { walk(worker); });
        tape_.clear();
        args_.clear();
        return Done{};
    }

private:
    struct Launch {
        const Native* native;
        std::size_t args;  // where they lie in args_
        std::uint32_t units, share;
    };
    /// Of the units of a launch.
    struct alignas(64) Progress {
        Progress() = default;
        Progress(Progress&&) noexcept {}  // for the vector to grow, between runs
        std::atomic<std::uint32_t> taken{0}, done{0};
    };

    void record(std::string_view kernel, Bytes args, const Grid&) override {
        const auto found = natives().find(kernel);
        CHECK(found != natives().end());
        const std::uint32_t units = found->second->units(args.data());
        if (units == 0) return;
        const std::size_t at = keep(args);
        // Several shares a worker, so that one that was held up does not hold up all.
        const std::uint32_t share = std::max(1u, units / (pool_.workers() * 4));
        tape_.push_back({found->second, at, units, share});
    }

    void record_call(HostWork& work, Bytes args) override {
        const Call call{&work, args.size()};
        const std::size_t at = keep(std::as_bytes(std::span(&call, 1)));
        keep(args);
        tape_.push_back({&host_call, at, 1, 1});
    }

    /// @return where they lie in args_
    std::size_t keep(Bytes args) {
        const std::size_t at = args_.size();
        args_.resize(at + (args.size() + 15) / 16 * 16);
        std::memcpy(args_.data() + at, args.data(), args.size());
        return at;
    }

    /// A launch begins when all units of the one before are done, whoever did them: a worker that the system
    /// took off its core holds the others up only by what it has taken and not done.
    void walk(std::uint32_t worker) {
        for (std::size_t i = 0; i < tape_.size(); ++i) {
            const Launch& launch = tape_[i];
            Progress& progress = progress_[i];
            for (;;) {
                const std::uint32_t first = progress.taken.fetch_add(launch.share, std::memory_order_relaxed);
                if (first >= launch.units) break;
                const std::uint32_t last = std::min(first + launch.share, launch.units);
                launch.native->run(args_.data() + launch.args, first, last, scratch_[worker]);
                if (progress.done.fetch_add(last - first, std::memory_order_acq_rel) + last - first ==
                    launch.units)
                    progress.done.notify_all();
            }
            if (i + 1 < tape_.size()) wait_until(progress.done, launch.units);
        }
    }

    Pool pool_;
    bool wide_sums_;
    std::vector<Scratch> scratch_;  // [workers]
    std::vector<Mapping> memory_;
    std::vector<Launch> tape_;
    std::vector<std::byte> args_;
    std::vector<Progress> progress_;  // [launches of the longest tape]
};

}  // namespace

Result<std::unique_ptr<Backend>> open_cpu_backend(const BackendOptions& options, bool wide_sums) {
    constexpr std::uint32_t most_threads = 1024;
    if (options.threads > most_threads)
        return fail(Fault::invalid_input, std::to_string(options.threads) +
                                              " threads are too many; at most " +
                                              std::to_string(most_threads));
    return std::make_unique<CpuBackend>(options.threads ? options.threads : usable_cores(), wide_sums);
}

}  // namespace kapitsa::cpu

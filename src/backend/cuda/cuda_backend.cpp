#include "backend/cuda/cuda_backend.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backend/cuda/driver.h"

// What nvcc made of kernels_*.cu, as the build put it here.
#define CUDA_MODULE(name, file)                                                            \
    asm(".section .rodata\n.balign 64\n.globl kapitsa_cuda_" #name "\nkapitsa_cuda_" #name \
        ":\n.incbin \"" file "\"\n.byte 0\n.text\n");                                      \
    extern "C" const unsigned char kapitsa_cuda_##name[];
#include "cuda_modules.inc"
#undef CUDA_MODULE

namespace kapitsa::cuda {
namespace {

constexpr const unsigned char* images[] = {
#define CUDA_MODULE(name, file) kapitsa_cuda_##name,
#include "cuda_modules.inc"
#undef CUDA_MODULE
};

/// The device, with the kernels on it. A process has one, for all its backends, until it ends.
class Gpu {
public:
    static Result<Gpu*> get() {
        static Result<std::unique_ptr<Gpu>> gpu = open();
        if (!gpu) return std::unexpected(gpu.error());
        return gpu->get();
    }

    /// The context is a thread's own; the engine's thread may be another one than that which opened it.
    Status current() const { return driver.check(driver.cuCtxSetCurrent(context_), "choosing the device"); }

    /// Null where there is no such kernel.
    CUfunction function(std::string_view kernel) {
        const auto known = functions_.find(kernel);
        if (known != functions_.end()) return known->second;
        CUfunction found = nullptr;
        const std::string terminated(kernel);
        for (const CUmodule module : modules_)
            if (driver.cuModuleGetFunction(&found, module, terminated.c_str()) == CUDA_SUCCESS) break;
        functions_.emplace(kernel, found);  // names are literals
        return found;
    }

    const Driver& driver;
    std::string name;
    int major = 0, minor = 0, multiprocessors = 0;
    std::size_t memory_bytes = 0;

private:
    explicit Gpu(const Driver& d) : driver(d) {}

    static Result<std::unique_ptr<Gpu>> open() {
        const Driver* driver = TRY(Driver::open());
        std::unique_ptr<Gpu> gpu(new Gpu(*driver));
        TRY(gpu->start());
        return gpu;
    }

    Status start() {
        CUdevice device = 0;
        TRY(driver.check(driver.cuDeviceGet(&device, 0), "opening the device"));
        char text[256] = "";
        TRY(driver.check(driver.cuDeviceGetName(text, sizeof text, device), "naming the device"));
        name = text;
        const auto ask = [&](CUdevice_attribute which, int& value) {
            return driver.check(driver.cuDeviceGetAttribute(&value, which, device),
                                "asking about the device");
        };
        TRY(ask(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, major));
        TRY(ask(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, minor));
        TRY(ask(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, multiprocessors));
        if (major < 8)
            return fail(Fault::unsupported, name + " has compute capability " + std::to_string(major) + "." +
                                                std::to_string(minor) + "; kapitsa needs 8.0 or newer");
        TRY(driver.check(driver.cuDeviceTotalMem(&memory_bytes, device), "measuring the device's memory"));
        TRY(driver.check(driver.cuDevicePrimaryCtxRetain(&context_, device),
                         "opening a context on the device"));
        TRY(current());
        for (const unsigned char* image : images) {
            CUmodule module = nullptr;
            TRY(driver.check(driver.cuModuleLoadData(&module, image), "loading kernels"));
            modules_.push_back(module);
        }
        return Done{};
    }

    CUcontext context_ = nullptr;
    std::vector<CUmodule> modules_;
    std::unordered_map<std::string_view, CUfunction> functions_;
};

class CudaBackend final : public Backend {
public:
    explicit CudaBackend(Gpu& gpu) : gpu_(gpu), driver_(gpu.driver) {}
    ~CudaBackend() override {
        if (!gpu_.current()) return;
        if (stream_) driver_.cuStreamSynchronize(stream_);
        for (const CUdeviceptr memory : memory_) driver_.cuMemFree(memory);
        if (staging_) driver_.cuMemFreeHost(staging_);
        if (stream_) driver_.cuStreamDestroy(stream_);
    }

    Status open() {
        TRY(gpu_.current());
        return check(driver_.cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), "opening a stream");
    }

    Device device() const override {
        return {.name = "cuda",
                .description = gpu_.name + ", " + std::to_string(gpu_.multiprocessors) +
                               " multiprocessors, compute capability " + std::to_string(gpu_.major) + "." +
                               std::to_string(gpu_.minor),
                .memory_bytes = gpu_.memory_bytes,
                .shares_host_memory = false};
    }

    bool has(std::string_view kernel) const override { return gpu_.function(kernel) != nullptr; }

    Result<Address> allocate(std::size_t bytes) override {
        const Address at = TRY(take(bytes));
        TRY(check(driver_.cuMemsetD8Async(at.value, 0, std::max<std::size_t>(bytes, 1), stream_),
                  "clearing memory"));
        return at;
    }
    Result<Address> import(Bytes host) override {
        const Address at = TRY(take(host.size()));
        write(at, host);
        TRY(failed_);
        return at;
    }

    /// Through memory that the device reads by itself; the caller's bytes are free when this returns.
    void write(Address to, Bytes from) override {
        note(gpu_.current());
        note(stage_for(from.size()));
        while (!from.empty() && failed_) {
            const std::size_t bytes = std::min(from.size(), staging_bytes_ - staged_);
            std::memcpy(static_cast<std::byte*>(staging_) + staged_, from.data(), bytes);
            note(check(driver_.cuMemcpyHtoDAsync(to.value, static_cast<std::byte*>(staging_) + staged_, bytes,
                                                 stream_),
                       "copying to the device"));
            staged_ = (staged_ + bytes + 255) / 256 * 256;
            if (staged_ >= staging_bytes_) drain();
            to = to + bytes;
            from = from.subspan(bytes);
        }
    }

    Status read(Address from, std::span<std::byte> to) override {
        note(gpu_.current());
        drain();
        note(stage_for(to.size()));
        for (std::size_t done = 0; done < to.size() && failed_;) {
            const std::size_t bytes = std::min(to.size() - done, staging_bytes_);
            note(check(driver_.cuMemcpyDtoHAsync(staging_, from.value + done, bytes, stream_),
                       "copying from the device"));
            drain();
            if (failed_) std::memcpy(to.data() + done, staging_, bytes);
            done += bytes;
        }
        return failed_;
    }

    Status run() override {
        drain();
        return failed_;
    }

private:
    static constexpr std::size_t staging_least = 64 << 10, staging_most = 32 << 20;

    Status check(CUresult result, const char* doing) const { return driver_.check(result, doing); }
    void note(Status status) {
        if (failed_ && !status) failed_ = std::move(status);
    }
    void drain() {
        note(check(driver_.cuStreamSynchronize(stream_), "running kernels"));
        staged_ = 0;
    }

    /// Makes room to copy so much through, or through in pieces of the most there may be.
    Status stage_for(std::size_t bytes) {
        bytes = std::clamp(bytes, staging_least, staging_most);
        if (bytes <= staging_bytes_ || !failed_) return Done{};
        drain();
        if (staging_) driver_.cuMemFreeHost(std::exchange(staging_, nullptr));
        staging_bytes_ = 0;
        TRY(check(driver_.cuMemHostAlloc(&staging_, bytes, 0), "taking memory to copy through"));
        staging_bytes_ = bytes;
        return Done{};
    }

    Result<Address> take(std::size_t bytes) {
        TRY(gpu_.current());
        CUdeviceptr at = 0;
        TRY(check(driver_.cuMemAlloc(&at, std::max<std::size_t>(bytes, 1)), "taking memory of the device"));
        memory_.push_back(at);
        return Address{at};
    }

    /// The device begins while the host still records; `run` waits for it.
    void record(std::string_view kernel, Bytes args, const Grid& grid) override {
        if (!failed_ || grid.x == 0 || grid.y == 0 || grid.z == 0) return;
        const CUfunction called = gpu_.function(kernel);
        CHECK(called != nullptr);
        void* parameters[] = {const_cast<std::byte*>(args.data())};
        note(check(driver_.cuLaunchKernel(called, grid.x, grid.y, grid.z, grid.threads, 1, 1, 0, stream_,
                                          parameters, nullptr),
                   "starting a kernel"));
    }
    void record_call(HostWork&, Bytes) override {
        CHECK(false && "the host does not share this device's memory");
    }

    Gpu& gpu_;
    const Driver& driver_;
    CUstream stream_ = nullptr;
    std::vector<CUdeviceptr> memory_;
    void* staging_ = nullptr;                     // [staging_bytes_] that the device reads by itself
    std::size_t staging_bytes_ = 0, staged_ = 0;  // of which so many are under way
    Status failed_ = Done{};                      // the first failure; it stays
};

}  // namespace

Result<std::unique_ptr<Backend>> open_cuda_backend() {
    Gpu* gpu = TRY(Gpu::get());
    auto backend = std::make_unique<CudaBackend>(*gpu);
    TRY(backend->open());
    return backend;
}

}  // namespace kapitsa::cuda

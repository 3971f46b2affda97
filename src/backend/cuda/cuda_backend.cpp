#include "backend/cuda/cuda_backend.h"

#include <cstring>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backend/cuda/driver.h"

// What nvcc made of kernels_*.cu, as the build put it here.
#define CUDA_MODULE(name, file)                                                                              \
    asm(".section .rodata\n.balign 64\n.globl kapitsa_cuda_" #name "\nkapitsa_cuda_" #name                   \
        ":\n.incbin \"" file "\"\n.byte 0\n.text\n");                                                        \
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

class CudaBackend final : public Backend {
public:
    explicit CudaBackend(const Driver& driver) : driver_(driver) {}
    ~CudaBackend() override {
        if (!context_) return;
        driver_.cuCtxSetCurrent(context_);
        if (stream_) driver_.cuStreamSynchronize(stream_);
        for (const CUdeviceptr memory : memory_) driver_.cuMemFree(memory);
        if (staging_) driver_.cuMemFreeHost(staging_);
        if (stream_) driver_.cuStreamDestroy(stream_);
        for (const CUmodule module : modules_) driver_.cuModuleUnload(module);
        driver_.cuDevicePrimaryCtxRelease(device_);
    }

    Status open() {
        TRY(check(driver_.cuDeviceGet(&device_, 0), "opening the device"));
        char name[256] = "";
        TRY(check(driver_.cuDeviceGetName(name, sizeof name, device_), "naming the device"));
        name_ = name;
        TRY(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major_));
        TRY(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor_));
        TRY(attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &multiprocessors_));
        if (major_ < 8)
            return fail(Fault::unsupported, name_ + " has compute capability " + std::to_string(major_) + "." +
                                                std::to_string(minor_) + "; kapitsa needs 8.0 or newer");
        TRY(check(driver_.cuDeviceTotalMem(&memory_bytes_, device_), "measuring the device's memory"));
        TRY(check(driver_.cuDevicePrimaryCtxRetain(&context_, device_), "opening a context on the device"));
        TRY(current());
        TRY(check(driver_.cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), "opening a stream"));
        TRY(check(driver_.cuMemHostAlloc(&staging_, staging_bytes, 0), "taking memory to copy through"));
        for (const unsigned char* image : images) {
            CUmodule module = nullptr;
            TRY(check(driver_.cuModuleLoadData(&module, image), "loading kernels"));
            modules_.push_back(module);
        }
        return Done{};
    }

    Device device() const override {
        return {.name = "cuda",
                .description = name_ + ", " + std::to_string(multiprocessors_) + " multiprocessors, compute capability " +
                               std::to_string(major_) + "." + std::to_string(minor_),
                .memory_bytes = memory_bytes_,
                .shares_host_memory = false};
    }

    bool has(std::string_view kernel) const override { return function(kernel) != nullptr; }

    Result<Address> allocate(std::size_t bytes) override {
        const Address at = TRY(take(bytes));
        TRY(check(driver_.cuMemsetD8Async(at.value, 0, std::max<std::size_t>(bytes, 1), stream_), "clearing memory"));
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
        note(current());
        while (!from.empty() && failed_) {
            const std::size_t bytes = std::min(from.size(), staging_bytes - staged_);
            std::memcpy(static_cast<std::byte*>(staging_) + staged_, from.data(), bytes);
            note(check(driver_.cuMemcpyHtoDAsync(to.value, static_cast<std::byte*>(staging_) + staged_, bytes, stream_),
                       "copying to the device"));
            staged_ = (staged_ + bytes + 255) / 256 * 256;
            if (staged_ >= staging_bytes) drain();
            to = to + bytes;
            from = from.subspan(bytes);
        }
    }

    Status read(Address from, std::span<std::byte> to) override {
        note(current());
        drain();
        for (std::size_t done = 0; done < to.size() && failed_;) {
            const std::size_t bytes = std::min(to.size() - done, staging_bytes);
            note(check(driver_.cuMemcpyDtoHAsync(staging_, from.value + done, bytes, stream_), "copying from the device"));
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
    static constexpr std::size_t staging_bytes = std::size_t(64) << 20;

    Status check(CUresult result, const char* doing) const { return driver_.check(result, doing); }
    void note(Status status) {
        if (failed_ && !status) failed_ = std::move(status);
    }
    /// The context is a thread's own; the engine's thread may be another one than that which opened it.
    Status current() { return check(driver_.cuCtxSetCurrent(context_), "choosing the device"); }
    Status attribute(CUdevice_attribute which, int* value) {
        return check(driver_.cuDeviceGetAttribute(value, which, device_), "asking about the device");
    }
    void drain() {
        note(check(driver_.cuStreamSynchronize(stream_), "running kernels"));
        staged_ = 0;
    }

    Result<Address> take(std::size_t bytes) {
        TRY(current());
        CUdeviceptr at = 0;
        TRY(check(driver_.cuMemAlloc(&at, std::max<std::size_t>(bytes, 1)), "taking memory of the device"));
        memory_.push_back(at);
        return Address{at};
    }

    CUfunction function(std::string_view kernel) const {
        const auto known = functions_.find(kernel);
        if (known != functions_.end()) return known->second;
        CUfunction found = nullptr;
        const std::string name(kernel);
        for (const CUmodule module : modules_)
            if (driver_.cuModuleGetFunction(&found, module, name.c_str()) == CUDA_SUCCESS) break;
        functions_.emplace(kernel, found);  // names are literals
        return found;
    }

    /// The device begins while the host still records; `run` waits for it.
    void record(std::string_view kernel, Bytes args, const Grid& grid) override {
        if (!failed_ || grid.x == 0 || grid.y == 0 || grid.z == 0) return;
        const CUfunction called = function(kernel);
        CHECK(called != nullptr);
        void* parameters[] = {const_cast<std::byte*>(args.data())};
        note(check(driver_.cuLaunchKernel(called, grid.x, grid.y, grid.z, grid.threads, 1, 1, 0, stream_, parameters, nullptr),
                   "starting a kernel"));
    }
    void record_call(HostWork&, Bytes) override { CHECK(false && "the host does not share this device's memory"); }

    const Driver& driver_;
    CUdevice device_ = 0;
    CUcontext context_ = nullptr;
    CUstream stream_ = nullptr;
    std::string name_;
    int major_ = 0, minor_ = 0, multiprocessors_ = 0;
    std::size_t memory_bytes_ = 0;
    std::vector<CUmodule> modules_;
    std::vector<CUdeviceptr> memory_;
    mutable std::unordered_map<std::string_view, CUfunction> functions_;
    void* staging_ = nullptr;  // [staging_bytes] that the device reads by itself
    std::size_t staged_ = 0;   // of them under way
    Status failed_ = Done{};   // the first failure; it stays
};

}  // namespace

Result<std::unique_ptr<Backend>> open_cuda_backend() {
    const Driver* driver = TRY(Driver::open());
    auto backend = std::make_unique<CudaBackend>(*driver);
    TRY(backend->open());
    return backend;
}

}  // namespace kapitsa::cuda

// A device that runs kernels by name, in order. It knows no operator, no layer and no model: those are
// kernels, and every backend has the same ones. One thread, the engine's, calls it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "backend/tensor.h"
#include "base/bytes.h"
#include "base/result.h"
#include "kernels/dialect/host.h"

namespace kapitsa {

/// What the device is, for people and for sizing.
struct Device {
    std::string name;                 // "cpu"
    std::string description;          // "16 threads, AVX3"
    std::size_t memory_bytes = 0;     // of the machine or card; 0 if unknown
    bool shares_host_memory = false;  // weights are used where they are mapped
};

/// What the host does between two launches of a step: it sees what the launches before wrote, and those after
/// see what it writes.
class HostWork {
public:
    virtual ~HostWork() = default;
    virtual void between_launches(Bytes args) = 0;
};

class Backend {
public:
    virtual ~Backend() = default;
    virtual Device device() const = 0;
    /// Whether the kernel exists here. A model asks for all that it will launch when it is loaded.
    virtual bool has(std::string_view kernel) const = 0;

    /// Device memory, zeroed, until the backend is gone. Fault::out_of_memory when it does not fit.
    virtual Result<Address> allocate(std::size_t bytes) = 0;
    /// Host bytes made readable by kernels: in place where memory is shared (they must outlive the backend),
    /// else a copy.
    virtual Result<Address> import(Bytes host) = 0;

    /// Host bytes to device memory, before the launches recorded after this call and after those before it.
    virtual void write(Address to, Bytes from) = 0;
    /// Device bytes to the host. Everything submitted is waited for.
    virtual Status read(Address from, std::span<std::byte> to) = 0;

    /// Records one launch, cut as the kernel's file says. Nothing runs before `run`.
    template <typename Args>
    void launch(Kernel<Args> kernel, const std::type_identity_t<Args>& args) {
        static_assert(std::is_trivially_copyable_v<Args> && sizeof(Args) <= 512);
        record(kernel.name, std::as_bytes(std::span(&args, 1)), grid_of(args));
    }
    /// Records work of the host; only on a device that shares its memory. `work` lives until the run.
    template <typename Args>
    void call(HostWork& work, const Args& args) {
        static_assert(std::is_trivially_copyable_v<Args> && sizeof(Args) <= 512);
        record_call(work, std::as_bytes(std::span(&args, 1)));
    }
    /// Runs what was recorded, in order, to the end. Fault::device once the device has failed; it stays
    /// failed.
    virtual Status run() = 0;

private:
    virtual void record(std::string_view kernel, Bytes args, const Grid& grid) = 0;
    virtual void record_call(HostWork& work, Bytes args) = 0;
};

struct BackendOptions {
    std::uint32_t threads = 0;  // of the CPU backend; 0: as many as the process may use cores
};

/// What KAPITSA_BACKEND says, else "cpu".
std::string default_backend();

/// "cpu"; "cuda": an NVIDIA GPU, where the build and the machine have what it needs; "cpu-f64": "cpu" with
/// the sums of matrix products and norms in f64, slow, to measure the other by; "emulator": the kernels of
/// GPUs on the CPU, slower still. Fault::unsupported, with the list of what is here, for another name.
Result<std::unique_ptr<Backend>> open_backend(std::string_view name, const BackendOptions& options = {});

}  // namespace kapitsa

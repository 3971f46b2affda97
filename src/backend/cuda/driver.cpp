#include "backend/cuda/driver.h"

#include <dlfcn.h>

namespace kapitsa::cuda {
namespace {

Result<Driver> load() {
    void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return fail(Fault::unsupported,
                    "this machine has no NVIDIA driver (libcuda.so.1); without one the backend \"cuda\" "
                    "does not run, \"cpu\" does");
    Driver driver;
// cuda.h names some functions with the version of their interface: cuMemAlloc is cuMemAlloc_v2.
#define CUDA_TEXT(name) #name
#define CUDA_LOAD(name)                                                                       \
    driver.name = reinterpret_cast<decltype(driver.name)>(::dlsym(library, CUDA_TEXT(name))); \
    if (!driver.name)                                                                         \
        return fail(Fault::unsupported,                                                       \
                    "the NVIDIA driver is too old: it has no " CUDA_TEXT(name) "; install a newer one");
    CUDA_FUNCTIONS(CUDA_LOAD)
#undef CUDA_LOAD
#undef CUDA_TEXT
    TRY(driver.check(driver.cuInit(0), "starting the NVIDIA driver"));
    int devices = 0;
    TRY(driver.check(driver.cuDeviceGetCount(&devices), "counting NVIDIA devices"));
    if (devices == 0) return fail(Fault::unsupported, "the NVIDIA driver finds no device");
    return driver;
}

}  // namespace

Result<const Driver*> Driver::open() {
    static const Result<Driver> driver = load();
    if (!driver) return std::unexpected(driver.error());
    return &*driver;
}

Status Driver::check(CUresult result, const char* doing) const {
    if (result == CUDA_SUCCESS) return Done{};
    const char* text = nullptr;
    if (cuGetErrorString(result, &text) != CUDA_SUCCESS || !text) text = "an error without a name";
    return fail(result == CUDA_ERROR_OUT_OF_MEMORY ? Fault::out_of_memory
                : result == CUDA_ERROR_NO_DEVICE   ? Fault::unsupported
                                                   : Fault::device,
                std::string(doing) + ": " + text + " (CUDA error " + std::to_string(int(result)) + ")");
}

}  // namespace kapitsa::cuda

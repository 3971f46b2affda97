// The CUDA driver, found when the program runs: a machine without one has no CUDA backend and everything
// else.
#pragma once

#include <cuda.h>

#include <string>

#include "base/result.h"

namespace kapitsa::cuda {

#define CUDA_FUNCTIONS(ROW)        \
    ROW(cuInit)                    \
    ROW(cuGetErrorString)          \
    ROW(cuDeviceGetCount)          \
    ROW(cuDeviceGet)               \
    ROW(cuDeviceGetName)           \
    ROW(cuDeviceGetAttribute)      \
    ROW(cuDeviceTotalMem)          \
    ROW(cuDevicePrimaryCtxRetain)  \
    ROW(cuDevicePrimaryCtxRelease) \
    ROW(cuCtxSetCurrent)           \
    ROW(cuModuleLoadData)          \
    ROW(cuModuleUnload)            \
    ROW(cuModuleGetFunction)       \
    ROW(cuFuncSetAttribute)        \
    ROW(cuMemAlloc)                \
    ROW(cuMemFree)                 \
    ROW(cuMemsetD8Async)           \
    ROW(cuMemcpyHtoDAsync)         \
    ROW(cuMemcpyDtoHAsync)         \
    ROW(cuMemHostAlloc)            \
    ROW(cuMemFreeHost)             \
    ROW(cuStreamCreate)            \
    ROW(cuStreamDestroy)           \
    ROW(cuStreamSynchronize)       \
    ROW(cuLaunchKernel)

/// The functions of the driver's library, by their own names.
struct Driver {
// NOLINTBEGIN(readability-identifier-naming): the names of the library
#define CUDA_MEMBER(name) decltype(&::name) name = nullptr;
    CUDA_FUNCTIONS(CUDA_MEMBER)
#undef CUDA_MEMBER
    // NOLINTEND(readability-identifier-naming)

    /// Opens the library once. Fault::unsupported, in a sentence, where there is none, or no device.
    static Result<const Driver*> open();

    /// Done, or what the driver says of it.
    Status check(CUresult result, const char* doing) const;
};

}  // namespace kapitsa::cuda

// NVIDIA GPUs of compute capability 8.0 and newer, through the driver alone.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace kapitsa::cuda {

/// The first device. Fault::unsupported where there is no driver, no device, or an older one.
Result<std::unique_ptr<Backend>> open_cuda_backend();

}  // namespace kapitsa::cuda

// The CPU as a backend: launches are recorded on a tape; `run` walks it with all threads at once, one barrier
// a launch.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace kapitsa::cpu {

/// @param wide_sums see Scratch::wide_sums
Result<std::unique_ptr<Backend>> open_cpu_backend(const BackendOptions& options, bool wide_sums);

}  // namespace kapitsa::cpu

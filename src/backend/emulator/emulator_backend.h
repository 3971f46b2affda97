// The kernels of GPUs on the CPU, thread by thread as fibers: a microscope and not an engine. What a GPU
// forgives, it refuses: kernels/dialect/fibers.h.
#pragma once

#include <memory>
#include <span>

#include "backend/backend.h"

namespace kapitsa::emulator {

std::unique_ptr<Backend> open_emulator_backend();

struct Entry;
// One table a file: kernels_*.cpp.
std::span<const Entry> layer_entries();
std::span<const Entry> product_entries();

}  // namespace kapitsa::emulator

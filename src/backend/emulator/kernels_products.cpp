// The bodies of the matrix products, and of all else that reads weights, as the emulator runs them.
#define KERNEL_BODIES
#include "backend/emulator/emulator_backend.h"
#include "kernels/blocks.h"
#include "kernels/embed.h"
#include "kernels/ngrams.h"

namespace kapitsa::emulator {

std::span<const Entry> product_entries() { return entries_here(); }

}  // namespace kapitsa::emulator

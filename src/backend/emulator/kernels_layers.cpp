// The bodies of all kernels that read no quantised weights, as the emulator runs them.
#define KERNEL_BODIES
#include "backend/emulator/emulator_backend.h"
#include "kernels/attend.h"
#include "kernels/choose_tokens.h"
#include "kernels/delta_net.h"
#include "kernels/elementwise.h"
#include "kernels/layer_norm.h"
#include "kernels/mamba2.h"
#include "kernels/picture.h"
#include "kernels/rms_norm.h"
#include "kernels/short_conv.h"
#include "kernels/sparse_attend.h"
#include "kernels/streams.h"
#include "kernels/unit_norm.h"

namespace kapitsa::emulator {

std::span<const Entry> layer_entries() { return entries_here(); }

}  // namespace kapitsa::emulator

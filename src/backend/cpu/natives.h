// Tables of kernels beyond those that native.h names: apart from it, so that a new one does not recompile every
// kernel there is.
#pragma once

#include "backend/cpu/native.h"

namespace kapitsa::cpu {

std::span<const Native> ngrams_natives();
std::span<const Native> sparse_attend_natives();
std::span<const Native> streams_natives();

}  // namespace kapitsa::cpu

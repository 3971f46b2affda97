// What the threads of a group find out together.
#pragma once

#include "kernels/dialect/dialect.h"

#ifdef KERNEL_BODIES

namespace kapitsa {

/// One word a simdgroup.
struct GroupWords {
    float words[32];
};

/// The sum over the group, in one order whatever else happens: butterflies of simdgroups, then one of their
/// sums.
BODY float group_sum(float value, Position at, Shared<GroupWords> scratch) {
    value = simd_sum(value);
    group_barrier();  // the sum before has been read
    if (at.lane == 0) scratch.words[at.simdgroup] = value;
    group_barrier();
    return simd_sum(at.lane < at.simdgroups ? scratch.words[at.lane] : 0.0f);
}

BODY float group_max(float value, Position at, Shared<GroupWords> scratch) {
    value = simd_max(value);
    group_barrier();
    if (at.lane == 0) scratch.words[at.simdgroup] = value;
    group_barrier();
    return simd_max(at.lane < at.simdgroups ? scratch.words[at.lane] : scratch.words[0]);
}

}  // namespace kapitsa

#endif

#include "model/disk_memory.h"

#include <algorithm>

namespace kapitsa {

DiskMemory::Shares DiskMemory::divide(std::uint64_t bytes, std::uint32_t rows_per_step) const {
    if (rows.bytes() == 0) return {.experts = bytes, .rows = {}};
    if (experts.bytes() == 0) return {.experts = {}, .rows = bytes};
    const std::uint64_t of_rows = std::min({bytes, rows.most_bytes(rows_per_step),
                                            std::max({rows.least_bytes(rows_per_step), bytes / 16,
                                                      bytes - std::min(bytes, experts.most_bytes())})});
    return {.experts = bytes - of_rows, .rows = of_rows};
}

Status DiskMemory::start(const Shares& shares, std::uint32_t rows_per_step) {
    if (shares.rows) TRY(rows.start({.bytes = *shares.rows, .rows_per_step = rows_per_step}));
    if (shares.experts) TRY(experts.start({.bytes = *shares.experts}));
    return Done{};
}

}  // namespace kapitsa

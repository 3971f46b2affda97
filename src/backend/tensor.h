// Where numbers lie on a device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/check.h"

namespace kapitsa {

/// A place in the memory of a device. Not a pointer: the host must not follow it, so it cannot.
struct Address {
    std::uint64_t value = 0;
    friend Address operator+(Address base, std::size_t bytes) { return {base.value + bytes}; }
    explicit operator bool() const { return value != 0; }
};

/// A matrix of f32 on a device, row-major and dense, that somebody else owns. Copied freely.
struct Tensor {
    Address address;
    std::uint32_t rows = 0, columns = 0;

    std::size_t bytes() const { return std::size_t(rows) * columns * sizeof(float); }
    /// Rows [first, first + count).
    Tensor slice(std::uint32_t first, std::uint32_t count) const {
        CHECK(first <= rows && count <= rows - first);
        return {address + std::size_t(first) * columns * sizeof(float), count, columns};
    }
};

}  // namespace kapitsa

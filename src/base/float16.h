// The 16-bit floats of model files, one at a time. (Kernels convert whole vectors.)
#pragma once

#include <bit>
#include <cstdint>

namespace kapitsa {

constexpr float float_from_bf16(std::uint16_t bits) {
    return std::bit_cast<float>(std::uint32_t(bits) << 16);
}

/// To nearest, ties to even. NaN stays NaN.
constexpr std::uint16_t bf16_from_float(float value) {
    const auto word = std::bit_cast<std::uint32_t>(value);
    if ((word & 0x7fffffff) > 0x7f800000) return std::uint16_t(word >> 16 | 0x40);
    return std::uint16_t((word + 0x7fff + (word >> 16 & 1)) >> 16);
}

constexpr float float_from_f16(std::uint16_t bits) {
    const std::uint32_t sign = std::uint32_t(bits & 0x8000) << 16, exponent = bits >> 10 & 31,
                        fraction = bits & 1023;
    if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000 | fraction << 13);
    if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
    const float magnitude = float(fraction) * 0x1p-24f;  // zero or subnormal
    return sign ? -magnitude : magnitude;
}

}  // namespace kapitsa

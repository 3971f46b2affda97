// MLX affine weights by the book: w = scale * q + bias, the codes one little-endian stream of bits a row.
#pragma once

#include "kernels/lab.h"

namespace kapitsa {

/// One code of a row of words, bit by bit.
inline uint code_at(const uint* words, std::size_t place, uint bits) {
    uint code = 0;
    for (uint b = 0; b < bits; ++b) {
        const std::size_t bit = place * bits + b;
        code |= (words[bit / 32] >> (bit % 32) & 1) << b;
    }
    return code;
}

template <typename Scale>
struct AffineMatrix {
    std::size_t rows, columns;
    uint group, bits;
    std::vector<uint> codes;    // [rows, columns * bits / 32]
    std::vector<Scale> scales;  // [rows, columns / group]
    std::vector<Scale> biases;  // [rows, columns / group]

    static AffineMatrix random(std::size_t rows, std::size_t columns, uint group, uint bits,
                               std::uint32_t seed) {
        return {rows,
                columns,
                group,
                bits,
                random_words(rows * columns * bits / 32, seed),
                stored_as<Scale>(random_floats(rows * columns / group, seed + 1, 0.1f)),
                stored_as<Scale>(random_floats(rows * columns / group, seed + 2))};
    }

    uint code(std::size_t row, std::size_t column) const {
        return code_at(&codes[row * columns * bits / 32], column, bits);
    }
    std::size_t group_of(std::size_t row, std::size_t column) const {
        return row * (columns / group) + column / group;
    }
    /// [rows, columns]
    std::vector<double> values() const {
        std::vector<double> all;
        for (std::size_t r = 0; r < rows; ++r)
            for (std::size_t c = 0; c < columns; ++c)
                all.push_back(number(scales[group_of(r, c)]) * code(r, c) + number(biases[group_of(r, c)]));
        return all;
    }
};

/// A test body for each of the three types of scales.
template <typename Body>
void for_each_scale(Body body) {
    body(float());
    body(half());
    body(bfloat());
}

}  // namespace kapitsa

// The constants by which the last few tokens pick rows of a table: kernels/ngrams.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/weights.h"

namespace kapitsa {

struct NgramNumbers {
    std::uint32_t vocabulary = 0;
    std::uint32_t order = 0;           // the most tokens hashed together
    std::uint32_t heads_of_order = 0;  // for each number of tokens from two on
    std::uint32_t least_size = 0;      // the first head's part is the first prime from here on
    std::uint32_t rows_multiple = 1;   // of the whole table
    std::uint64_t seed = 0;
    std::uint32_t module = 0;  // the number of the layer among those that have a table
    std::uint32_t heads() const { return (order - 1) * heads_of_order; }
};

struct NgramHash {
    std::vector<std::uint64_t> multipliers;     // [order]
    std::vector<std::uint64_t> sizes, offsets;  // [heads]

    /// Made of the numbers alone.
    static NgramHash compute(const NgramNumbers& numbers);
    /// As `module` ("...ple_embedding") stores it: whole numbers of 64 bits. Tensors that some hand has
    /// turned into floats have lost bits: then, and where there are none, it is computed.
    static Result<NgramHash> load(Weights& weights, const std::string& module, const NgramNumbers& numbers);

    /// Of the table, below 2^32; heads' parts lie within.
    Result<std::uint32_t> rows(std::uint32_t multiple) const;
};

}  // namespace kapitsa

// An image as a model takes it: its pixels, cut into the patches that its vision tower reads. It crosses from
// the language side, which decodes files, to the machine side, which computes.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace kapitsa {

struct Picture {
    std::uint32_t rows = 0, columns = 0;    // of the grid of patches: whole numbers of blocks
    std::uint32_t side = 0;                 // of a patch, in pixels
    std::uint32_t block = 1;                // block x block neighbouring patches become one token
    std::array<float, 3> scale{}, shift{};  // of a channel: the tower reads pixel * scale + shift
    std::vector<std::uint8_t> pixels{};  // [patches, 3, side, side], a block's patches together; blocks row
                                         // by row, and so are the patches of a block

    std::uint32_t patches() const { return rows * columns; }
    std::uint32_t token_rows() const { return rows / block; }
    std::uint32_t token_columns() const { return columns / block; }
    std::uint32_t tokens() const { return token_rows() * token_columns(); }

    friend bool operator==(const Picture&, const Picture&) = default;
};

/// A picture in a prompt: it stands for the tokens from `first` on, one a block of its patches.
struct PlacedPicture {
    std::uint32_t first = 0;
    std::shared_ptr<const Picture> picture;
};

}  // namespace kapitsa

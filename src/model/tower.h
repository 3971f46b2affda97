// The part of a model that looks at pictures: patches of pixels in, one row of the model's stream a token
// out.
#pragma once

#include <array>
#include <cstdint>

#include "model/recorder.h"

namespace kapitsa {

struct TowerShape {
    std::uint32_t side = 0;    // of a patch, in pixels
    std::uint32_t block = 0;   // block x block patches become one token
    std::uint32_t frames = 0;  // that a patch of a film would have; a picture is repeated
    std::uint32_t width = 0;   // of a token
};

/// A picture as the device sees it.
struct PictureBatch {
    std::uint32_t rows = 0, columns = 0;  // of the grid of patches
    std::array<float, 3> scale{}, shift{};
    Address pixels{};     // uchar [patches, 3, side * side]
    Address positions{};  // uint [patches, position_axes]: none, row, column
    Address places{};     // uint [patches]: 0, 1, 2, ...: slots of keys and values, and their pages
    Address segment{};    // SegmentRows: all of them
    std::uint32_t patches() const { return rows * columns; }
};

class Tower {
public:
    virtual ~Tower() = default;
    virtual const TowerShape& shape() const = 0;
    /// Records one picture. @return [tokens, width] on the scratch stack
    virtual Tensor forward(const PictureBatch& picture, Recorder& r) const = 0;
};

}  // namespace kapitsa

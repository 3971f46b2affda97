// From pixels to what a vision tower reads: sized, and cut into patches, as preprocessor_config.json says.
#pragma once

#include <array>
#include <cstdint>

#include "base/json.h"
#include "base/picture.h"
#include "base/result.h"
#include "image/pixels.h"

namespace kapitsa {

class Preprocessor {
public:
    /// `file`: preprocessor_config.json, or null: then the values that all published models have. What is set
    /// to something that we do not do is refused.
    static Result<Preprocessor> read(const Json* file);

    /// Pictures that become more patches than this are made smaller first.
    void limit_patches(std::uint32_t patches);

    std::uint32_t side() const { return side_; }    // of a patch, in pixels
    std::uint32_t block() const { return block_; }  // patches along the side of what becomes one token
    std::uint32_t frames() const { return frames_; }

    struct Extent {
        std::uint32_t width, height;
        friend bool operator==(const Extent&, const Extent&) = default;
    };
    /// The size that an image is given: whole blocks, within the bounds, nearly of the same proportions.
    /// Fault::invalid_input where one side is more than 200 times the other.
    Result<Extent> extent_of(std::uint32_t width, std::uint32_t height) const;

    Result<Picture> picture(Pixels pixels) const;

private:
    std::uint32_t side_ = 16, block_ = 2, frames_ = 2;
    std::uint64_t pixels_least_ = 65536, pixels_most_ = 16777216;
    std::array<double, 3> mean_{0.5, 0.5, 0.5}, deviation_{0.5, 0.5, 0.5};
    double rescale_ = 1.0 / 255;
};

}  // namespace kapitsa

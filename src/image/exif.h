// How a camera was held, and an image turned so that it stands upright. Source: the Exif standard, 2.3 (TIFF
// structure and tag 0x0112).
#pragma once

#include "base/bytes.h"
#include "image/pixels.h"

namespace kapitsa {

/// The orientation, 1 to 8, that a TIFF structure says ("II" or "MM" first). 1 where it says none, or is
/// broken: what a camera adds is not worth the image.
std::uint32_t orientation_of(Bytes tiff);

/// The image as it is to be seen.
Pixels upright(Pixels pixels, std::uint32_t orientation);

}  // namespace kapitsa

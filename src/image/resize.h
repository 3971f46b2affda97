// Bicubic resizing as the models were trained with, to the bit.
#pragma once

#include "image/pixels.h"

namespace kapitsa {

/// Keys' cubic with a = -1/2, its footprint widened where the image shrinks; columns first, then rows, both
/// rounded to 8 bits. Source: torchvision's resize of 8-bit images with antialiasing, weights of 16 bits
/// included; Pillow's differs by the rounding of its weights.
Pixels resize(Pixels pixels, std::uint32_t width, std::uint32_t height);

}  // namespace kapitsa

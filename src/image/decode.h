// From the bytes of a PNG, JPEG or WebP file to pixels, upright. The bytes come from outside: what is too
// large is refused before it is decoded, what is broken or animated with a sentence.
//
// What a file says beyond its pixels is taken as the models' reference takes it: alpha is dropped and not
// blended, palettes and greys become colours, of 16 bits the upper 8 count, gamma and colour profiles are
// left alone, and the orientation of EXIF is applied.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "base/result.h"
#include "image/pixels.h"

namespace kapitsa {

constexpr std::size_t image_bytes_most = 64u << 20;
constexpr std::uint64_t image_pixels_most = 64u << 20;  // 8192 x 8192

/// Fault::invalid_input for what is no such file, or is too large; Fault::unsupported for an animation;
/// Fault::corrupt_file for what breaks its own format.
Result<Pixels> decode_image(Bytes file);

}  // namespace kapitsa

// What decode.cpp puts together: one decoder a format, each over the library that knows it. They are called
// with bytes that begin as their format does.
#pragma once

#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "image/pixels.h"

namespace kapitsa {

struct Decoded {
    Pixels pixels;
    std::string exif = {};  // the TIFF structure of its EXIF data, or ""
};

bool is_png(Bytes file);
bool is_jpeg(Bytes file);
bool is_webp(Bytes file);
Result<Decoded> decode_png(Bytes file);
Result<Decoded> decode_jpeg(Bytes file);
Result<Decoded> decode_webp(Bytes file);

/// Refuses an image of more pixels than are decoded, with both numbers, and one without any.
Status check_extent(std::uint64_t width, std::uint64_t height);

/// A file that breaks its format: "the PNG is broken: " and the library's reason.
[[nodiscard]] std::unexpected<Error> broken(const char* format, const std::string& reason);
/// A file of several pictures.
[[nodiscard]] std::unexpected<Error> animated(const char* format);

}  // namespace kapitsa

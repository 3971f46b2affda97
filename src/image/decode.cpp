#include "image/decode.h"

#include "image/codecs.h"
#include "image/exif.h"

namespace kapitsa {

Status check_extent(std::uint64_t width, std::uint64_t height) {
    if (width == 0 || height == 0) return fail(Fault::corrupt_file, "the image has no pixels");
    // Each factor first, so that the product is one.
    if (width > image_pixels_most || height > image_pixels_most || width * height > image_pixels_most)
        return fail(Fault::invalid_input, "the image is " + std::to_string(width) + " x " +
                                              std::to_string(height) + " pixels, and at most " +
                                              std::to_string(image_pixels_most) +
                                              " pixels are decoded: make it smaller");
    return Done{};
}

std::unexpected<Error> broken(const char* format, const std::string& reason) {
    return fail(Fault::corrupt_file, std::string("the ") + format + " is broken: " + reason);
}

std::unexpected<Error> animated(const char* format) {
    return fail(Fault::unsupported,
                std::string("the ") + format + " is an animation: send one of its frames as an image");
}

Result<Pixels> decode_image(Bytes file) {
    if (file.size() > image_bytes_most)
        return fail(Fault::invalid_input, "the image has " + std::to_string(file.size()) +
                                              " bytes, and at most " + std::to_string(image_bytes_most) +
                                              " are taken: make it smaller");
    const auto decode = is_png(file)    ? decode_png
                        : is_jpeg(file) ? decode_jpeg
                        : is_webp(file) ? decode_webp
                                        : nullptr;
    if (!decode)
        return fail(Fault::invalid_input,
                    file.empty() ? "the image is empty"
                                 : "the image is neither PNG nor JPEG nor WebP: convert it first");
    Decoded decoded = TRY(decode(file));
    return upright(std::move(decoded.pixels), orientation_of(as_bytes(decoded.exif)));
}

}  // namespace kapitsa

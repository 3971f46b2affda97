// Any bytes as an image. What is decoded has the pixels that it says, within the bound, and a picture of it
// has whole blocks of patches; what is refused says why.
#include <cstdint>

#include "base/check.h"
#include "base/utf8.h"
#include "image/decode.h"
#include "image/preprocessor.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace kapitsa;
    auto pixels = decode_image(std::as_bytes(std::span(data, size)));
    if (!pixels) {
        CHECK(!pixels.error().message.empty() && is_utf8(pixels.error().message));
        return 0;
    }
    const std::uint64_t count = std::uint64_t(pixels->width) * pixels->height;
    CHECK(count > 0 && count <= image_pixels_most && pixels->rgb.size() == count * 3);
    if (count > 1u << 16) return 0;  // a few bytes may be many pixels, and all of them cost the same
    Preprocessor preprocessor = *Preprocessor::read(nullptr);
    preprocessor.limit_patches(256);
    const auto picture = preprocessor.picture(std::move(*pixels));
    if (!picture) {
        CHECK(!picture.error().message.empty());
        return 0;
    }
    CHECK(picture->rows % picture->block == 0 && picture->columns % picture->block == 0);
    CHECK(picture->tokens() > 0);
    CHECK(picture->pixels.size() == std::size_t(picture->patches()) * 3 * picture->side * picture->side);
    return 0;
}

// WebP, over libwebp. Source: RFC 9649, for the chunks that are looked at here.
#include <webp/decode.h>

#include "image/codecs.h"

namespace kapitsa {
namespace {

std::uint32_t little_endian(Bytes file, std::size_t at) {
    std::uint32_t value = 0;
    for (std::size_t i = 4; i-- > 0;) value = value << 8 | std::to_integer<std::uint32_t>(file[at + i]);
    return value;
}

/// The chunk EXIF, which some programs begin with the sign that JPEG has there.
std::string exif_of(Bytes file) {
    constexpr std::size_t head = 8;
    constexpr std::string_view sign{"Exif\0\0", 6};
    for (std::size_t at = 12; at < file.size() && file.size() - at >= head;) {
        const std::size_t bytes = little_endian(file, at + 4);
        if (bytes > file.size() - at - head) return "";
        if (as_text(file).substr(at, 4) == "EXIF") {
            std::string_view exif = as_text(file).substr(at + head, bytes);
            if (exif.starts_with(sign)) exif.remove_prefix(sign.size());
            return std::string(exif);
        }
        at += head + bytes + bytes % 2;
    }
    return "";
}

}  // namespace

bool is_webp(Bytes file) {
    const std::string_view text = as_text(file);
    return text.starts_with("RIFF") && text.size() >= 12 && text.substr(8, 4) == "WEBP";
}

Result<Decoded> decode_webp(Bytes file) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(file.data());
    WebPBitstreamFeatures features;
    if (WebPGetFeatures(bytes, file.size(), &features) != VP8_STATUS_OK)
        return broken("WebP", "its header is damaged or not whole");
    if (features.has_animation) return animated("WebP");
    TRY(check_extent(std::uint64_t(features.width), std::uint64_t(features.height)));
    Decoded decoded{Pixels::of(std::uint32_t(features.width), std::uint32_t(features.height)), exif_of(file)};
    auto& rgb = decoded.pixels.rgb;
    if (!WebPDecodeRGBInto(bytes, file.size(), rgb.data(), rgb.size(), features.width * 3))
        return broken("WebP", "its pixels are damaged or not whole");
    return decoded;
}

}  // namespace kapitsa

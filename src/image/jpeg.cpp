// JPEG, over libjpeg-turbo. Its errors come by longjmp, so what it jumps over owns nothing.
#include <cstddef>
#include <cstdio>
// (before it)
#include <jpeglib.h>
// (after it)
#include <jerror.h>

#include <csetjmp>

#include "image/codecs.h"

namespace kapitsa {
namespace {

constexpr std::string_view exif_sign{"Exif\0\0", 6};
// Each scan of a progressive file is a pass over all of its pixels; cameras and programs write up to ten.
constexpr int scans_most = 64;

/// What libjpeg's callbacks see.
struct Decoder {
    jpeg_decompress_struct jpeg{};
    jpeg_error_mgr errors{};
    jpeg_progress_mgr progress{};
    std::jmp_buf on_failure;
    char reason[JMSG_LENGTH_MAX] = "";
};

[[noreturn]] void on_error(j_common_ptr jpeg) {
    Decoder& decoder = *static_cast<Decoder*>(jpeg->client_data);
    jpeg->err->format_message(jpeg, decoder.reason);
    std::longjmp(decoder.on_failure, 1);
}

/// The library goes on after a warning, with grey where pixels are missing.
void on_message(j_common_ptr jpeg, int level) {
    const int code = jpeg->err->msg_code;
    if (level < 0 && (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER)) on_error(jpeg);
}

void on_progress(j_common_ptr jpeg) {
    if (reinterpret_cast<j_decompress_ptr>(jpeg)->input_scan_number > scans_most) {
        jpeg->err->msg_code = JERR_BAD_PROGRESSION;
        on_error(jpeg);
    }
}

void open(Decoder& decoder, Bytes file) {
    decoder.jpeg.err = jpeg_std_error(&decoder.errors);
    decoder.errors.error_exit = on_error;
    decoder.errors.emit_message = on_message;
    decoder.jpeg.client_data = &decoder;
    jpeg_create_decompress(&decoder.jpeg);
    decoder.progress.progress_monitor = on_progress;
    decoder.jpeg.progress = &decoder.progress;
    jpeg_mem_src(&decoder.jpeg, reinterpret_cast<const unsigned char*>(file.data()), file.size());
    jpeg_save_markers(&decoder.jpeg, JPEG_APP0 + 1, 0xffff);
}

bool read_header(Decoder& decoder, Bytes file) {
    if (setjmp(decoder.on_failure)) return false;
    open(decoder, file);
    jpeg_read_header(&decoder.jpeg, TRUE);
    const bool four = decoder.jpeg.jpeg_color_space == JCS_CMYK || decoder.jpeg.jpeg_color_space == JCS_YCCK;
    decoder.jpeg.out_color_space = four ? JCS_CMYK : JCS_RGB;
    return true;
}

/// Inks to light; files marked by Adobe's programs store them the other way round.
void light_of_inks(const std::uint8_t* inks, std::uint32_t width, bool inverted, std::uint8_t* rgb) {
    for (std::uint32_t x = 0; x < width; ++x, inks += 4, rgb += 3) {
        const std::uint32_t no_black = inverted ? inks[3] : 255u - inks[3];
        for (int c = 0; c < 3; ++c) {
            const std::uint32_t no_ink = inverted ? inks[c] : 255u - inks[c];
            rgb[c] = std::uint8_t((no_ink * no_black + 127) / 255);
        }
    }
}

/// @param line [width, 4] room for a row of inks
bool read_rows(Decoder& decoder, std::uint32_t width, std::uint8_t* to, std::uint8_t* line) {
    if (setjmp(decoder.on_failure)) return false;
    jpeg_decompress_struct& jpeg = decoder.jpeg;
    jpeg_start_decompress(&jpeg);
    while (jpeg.output_scanline < jpeg.output_height) {
        std::uint8_t* row = to + std::size_t(jpeg.output_scanline) * width * 3;
        JSAMPROW into = jpeg.out_color_space == JCS_CMYK ? line : row;
        jpeg_read_scanlines(&jpeg, &into, 1);
        if (into == line) light_of_inks(line, width, jpeg.saw_Adobe_marker != 0, row);
    }
    jpeg_finish_decompress(&jpeg);
    return true;
}

std::string exif_of(const jpeg_decompress_struct& jpeg) {
    for (const jpeg_marker_struct* marker = jpeg.marker_list; marker; marker = marker->next) {
        const std::string_view data(reinterpret_cast<const char*>(marker->data), marker->data_length);
        if (data.starts_with(exif_sign)) return std::string(data.substr(exif_sign.size()));
    }
    return "";
}

Result<Decoded> decode(Decoder& decoder, Bytes file) {
    if (!read_header(decoder, file)) return broken("JPEG", decoder.reason);
    TRY(check_extent(decoder.jpeg.image_width, decoder.jpeg.image_height));
    Decoded decoded{Pixels::of(decoder.jpeg.image_width, decoder.jpeg.image_height)};
    decoded.exif = exif_of(decoder.jpeg);
    std::vector<std::uint8_t> line(std::size_t(decoded.pixels.width) * 4);
    if (!read_rows(decoder, decoded.pixels.width, decoded.pixels.rgb.data(), line.data()))
        return broken("JPEG", decoder.reason);
    return decoded;
}

}  // namespace

bool is_jpeg(Bytes file) { return as_text(file).starts_with("\xff\xd8\xff"); }

Result<Decoded> decode_jpeg(Bytes file) {
    Decoder decoder;
    auto decoded = decode(decoder, file);
    jpeg_destroy_decompress(&decoder.jpeg);
    return decoded;
}

}  // namespace kapitsa

// PNG, over libpng. Its errors come by longjmp, so what it jumps over owns nothing.
// Source: the PNG specification (third edition), for the chunks that are looked at here.
#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>

#include "image/codecs.h"

namespace kapitsa {
namespace {

constexpr std::string_view signature = "\x89PNG\r\n\x1a\n";
constexpr std::size_t chunk_bytes_most = 8u << 20;  // of text, profiles and EXIF, unpacked

std::uint32_t big_endian(Bytes file, std::size_t at) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < 4; ++i) value = value << 8 | std::to_integer<std::uint32_t>(file[at + i]);
    return value;
}

/// Width, height, and whether there are several frames (acTL, which stands before the pixels).
Status check_chunks(Bytes file) {
    constexpr std::size_t head = 8, first_data = 16;  // length and type; where the first chunk's data lie
    if (file.size() < first_data + 8 || as_text(file).substr(12, 4) != "IHDR")
        return broken("PNG", "it does not begin with a header");
    TRY(check_extent(big_endian(file, first_data), big_endian(file, first_data + 4)));
    for (std::size_t at = signature.size(); file.size() - at >= head + 4;) {
        const std::size_t bytes = big_endian(file, at);
        const std::string_view type = as_text(file).substr(at + 4, 4);
        if (type == "IDAT" || bytes > file.size() - at - head - 4) break;
        if (type == "acTL" && bytes >= 4 && big_endian(file, at + head) > 1) return animated("PNG");
        at += head + bytes + 4;
    }
    return Done{};
}

/// What libpng's callbacks see.
struct Source {
    Bytes left;
    char reason[128] = "";
};

void give_bytes(png_structp png, png_bytep to, std::size_t count) {
    Source& source = *static_cast<Source*>(png_get_io_ptr(png));
    if (count > source.left.size()) png_error(png, "the file ends too early");
    std::memcpy(to, source.left.data(), count);
    source.left = source.left.subspan(count);
}

[[noreturn]] void on_error(png_structp png, png_const_charp reason) {
    Source& source = *static_cast<Source*>(png_get_error_ptr(png));
    std::strncpy(source.reason, reason, sizeof source.reason - 1);
    png_longjmp(png, 1);
}
void on_warning(png_structp, png_const_charp) {}

/// Whatever the file holds, rows of 8-bit red, green and blue come out.
void ask_for_rgb(png_structp png) {
    png_set_strip_16(png);
    png_set_expand(png);  // palettes, and greys of fewer bits
    png_set_gray_to_rgb(png);
    png_set_strip_alpha(png);
}

/// The part under setjmp. @return false: see source.reason
bool read(png_structp png, png_infop info, std::uint32_t width, std::uint8_t* to, png_bytep* rows,
          png_bytep* exif, png_uint_32* exif_bytes) {
    if (setjmp(png_jmpbuf(png))) return false;
    png_set_chunk_malloc_max(png, chunk_bytes_most);
    png_set_user_limits(png, 0x7fffffff, 0x7fffffff);  // the extent was checked
    png_read_info(png, info);
    ask_for_rgb(png);
    png_set_interlace_handling(png);
    png_read_update_info(png, info);
    if (png_get_rowbytes(png, info) != std::size_t(width) * 3) png_error(png, "its rows have another length");
    const std::uint32_t height = png_get_image_height(png, info);
    for (std::uint32_t y = 0; y < height; ++y) rows[y] = to + std::size_t(y) * width * 3;
    png_read_image(png, rows);
    png_read_end(png, info);
    png_get_eXIf_1(png, info, exif_bytes, exif);
    return true;
}

}  // namespace

bool is_png(Bytes file) { return as_text(file).starts_with(signature); }

Result<Decoded> decode_png(Bytes file) {
    TRY(check_chunks(file));
    Decoded decoded{Pixels::of(big_endian(file, 16), big_endian(file, 20))};
    std::vector<png_bytep> rows(decoded.pixels.height);
    Source source{.left = file};
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &source, on_error, on_warning);
    png_infop info = png ? png_create_info_struct(png) : nullptr;
    if (!info) {
        png_destroy_read_struct(&png, nullptr, nullptr);
        return fail(Fault::out_of_memory, "there is no memory to read the PNG");
    }
    png_set_read_fn(png, &source, give_bytes);
    png_bytep exif = nullptr;
    png_uint_32 exif_bytes = 0;
    const bool whole =
        read(png, info, decoded.pixels.width, decoded.pixels.rgb.data(), rows.data(), &exif, &exif_bytes);
    if (whole && exif) decoded.exif.assign(reinterpret_cast<const char*>(exif), exif_bytes);
    png_destroy_read_struct(&png, &info, nullptr);
    if (!whole) return broken("PNG", source.reason);
    return decoded;
}

}  // namespace kapitsa

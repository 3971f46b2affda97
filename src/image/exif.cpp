#include "image/exif.h"

#include <cstring>
#include <optional>

namespace kapitsa {
namespace {

/// Numbers of either order of bytes, from where there are some.
class Tiff {
public:
    explicit Tiff(Bytes bytes) : bytes_(bytes) {
        const std::string_view text = as_text(bytes).substr(0, 2);
        little_ = text == "II";
        valid_ = little_ || text == "MM";
    }
    bool valid() const { return valid_ && number(2, 2) == 42u; }

    std::optional<std::uint32_t> number(std::uint64_t at, std::uint32_t bytes) const {
        if (at + bytes > bytes_.size()) return {};
        std::uint32_t value = 0;
        for (std::uint32_t i = 0; i < bytes; ++i) {
            const std::uint32_t byte = std::to_integer<std::uint32_t>(bytes_[at + i]);
            value |= byte << 8 * (little_ ? i : bytes - 1 - i);
        }
        return value;
    }

private:
    Bytes bytes_;
    bool little_ = false, valid_ = false;
};

}  // namespace

std::uint32_t orientation_of(Bytes bytes) {
    constexpr std::uint32_t orientation = 0x0112, of_16_bits = 3, entry_bytes = 12;
    const Tiff tiff(bytes);
    if (!tiff.valid()) return 1;
    const std::uint64_t directory = tiff.number(4, 4).value_or(0);
    const std::uint32_t entries = tiff.number(directory, 2).value_or(0);
    for (std::uint32_t i = 0; i < entries; ++i) {
        const std::uint64_t entry = directory + 2 + std::uint64_t(i) * entry_bytes;
        if (tiff.number(entry, 2) != orientation || tiff.number(entry + 2, 2) != of_16_bits) continue;
        const std::uint32_t value = tiff.number(entry + 8, 2).value_or(1);
        return value >= 1 && value <= 8 ? value : 1;
    }
    return 1;
}

Pixels upright(Pixels from, std::uint32_t orientation) {
    if (orientation <= 1) return from;
    // 5 to 8 swap the axes; what then runs backwards is said by these.
    const bool swaps = orientation >= 5;
    const bool x_backwards = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
    const bool y_backwards = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
    Pixels to = swaps ? Pixels::of(from.height, from.width) : Pixels::of(from.width, from.height);
    for (std::uint32_t y = 0; y < to.height; ++y) {
        std::uint8_t* pixel = to.row(y);
        for (std::uint32_t x = 0; x < to.width; ++x, pixel += 3) {
            const std::uint32_t along = swaps ? y : x, down = swaps ? x : y;
            const std::uint32_t from_x = x_backwards ? from.width - 1 - along : along,
                                from_y = y_backwards ? from.height - 1 - down : down;
            std::memcpy(pixel, from.row(from_y) + std::size_t(from_x) * 3, 3);
        }
    }
    return to;
}

}  // namespace kapitsa

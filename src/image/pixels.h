// A decoded image: 8 bit, red, green and blue, row by row from the top.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kapitsa {

struct Pixels {
    std::uint32_t width = 0, height = 0;
    std::vector<std::uint8_t> rgb;  // [height, width, 3]

    static Pixels of(std::uint32_t width, std::uint32_t height) {
        return {width, height, std::vector<std::uint8_t>(std::size_t(width) * height * 3)};
    }
    std::uint8_t* row(std::size_t y) { return rgb.data() + y * width * 3; }
    const std::uint8_t* row(std::size_t y) const { return rgb.data() + y * width * 3; }
};

}  // namespace kapitsa

#include "image/resize.h"

#include <algorithm>
#include <cmath>

namespace kapitsa {
namespace {

double cubic(double x) {
    constexpr double a = -0.5;
    x = std::abs(x);
    if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
    return 0;
}

/// How each place of the new axis is made of neighbouring ones of the old.
struct Axis {
    struct Place {
        std::uint32_t first, count;
        std::size_t weights;  // where they begin
    };
    std::vector<Place> places;          // [to]
    std::vector<std::int32_t> weights;  // in units of 1 / 2^bits
    int bits = 0;

    Axis(std::uint32_t from, std::uint32_t to);
};

Axis::Axis(std::uint32_t from, std::uint32_t to) {
    const double scale = double(from) / to, stretch = std::max(scale, 1.0), support = 2 * stretch;
    std::vector<double> exact;
    double largest = 0;
    for (std::uint32_t i = 0; i < to; ++i) {
        const double center = scale * (i + 0.5);
        const auto first = std::uint32_t(std::floor(std::max(center - support + 0.5, 0.0)));
        const auto end = std::min(std::uint32_t(std::floor(center + support + 0.5)), from);
        const Place place{first, end - first, exact.size()};
        double total = 0;
        for (std::uint32_t j = first; j < end; ++j) {
            exact.push_back(cubic((j - center + 0.5) / stretch));
            total += exact.back();
        }
        for (std::size_t j = place.weights; j < exact.size(); ++j) {
            if (total != 0) exact[j] /= total;
            largest = std::max(largest, exact[j]);
        }
        places.push_back(place);
    }
    // As many bits as keep the largest weight within 16.
    while (bits < 22 && std::int64_t(std::floor(0.5 + largest * double(1 << (bits + 1)))) < 1 << 15) ++bits;
    for (const double weight : exact) weights.push_back(std::int32_t(std::round(weight * double(1 << bits))));
}

/// One row of the result: `count` values along it, each the sum of values `stride` apart.
std::uint8_t blend(const Axis& axis, const Axis::Place& place, const std::uint8_t* from, std::size_t stride) {
    std::int32_t sum = 1 << (axis.bits - 1);
    for (std::uint32_t j = 0; j < place.count; ++j)
        sum += axis.weights[place.weights + j] * from[(place.first + j) * stride];
    return std::uint8_t(std::clamp(sum >> axis.bits, 0, 255));
}

Pixels resize_columns(const Pixels& from, std::uint32_t width) {
    const Axis axis(from.width, width);
    Pixels to = Pixels::of(width, from.height);
    for (std::uint32_t y = 0; y < to.height; ++y)
        for (std::uint32_t x = 0; x < width; ++x)
            for (std::uint32_t c = 0; c < 3; ++c)
                to.row(y)[x * 3 + c] = blend(axis, axis.places[x], from.row(y) + c, 3);
    return to;
}

Pixels resize_rows(const Pixels& from, std::uint32_t height) {
    const Axis axis(from.height, height);
    Pixels to = Pixels::of(from.width, height);
    const std::size_t stride = std::size_t(from.width) * 3;
    for (std::uint32_t y = 0; y < height; ++y)
        for (std::size_t i = 0; i < stride; ++i)
            to.row(y)[i] = blend(axis, axis.places[y], from.rgb.data() + i, stride);
    return to;
}

}  // namespace

Pixels resize(Pixels pixels, std::uint32_t width, std::uint32_t height) {
    if (width != pixels.width) pixels = resize_columns(pixels, width);
    if (height != pixels.height) pixels = resize_rows(pixels, height);
    return pixels;
}

}  // namespace kapitsa

#include "image/preprocessor.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "formats/config_reader.h"
#include "image/resize.h"

namespace kapitsa {
namespace {

constexpr WholeRange pixel_counts{1, 1u << 30};

/// A step that is always taken.
Status expect_step(const ConfigReader& config, const char* key) {
    if (TRY(config.flag_or(key, true))) return Done{};
    return fail(Fault::unsupported, config.field(key) + " is false; images are always prepared in full here");
}

Status read_channels(const ConfigReader& config, const char* key, double least,
                     std::array<double, 3>& channels) {
    if (!config.has(key)) return Done{};
    const auto values = TRY(config.reals(key, {least, 1e6}));
    if (values.size() != channels.size())
        return fail(Fault::corrupt_file, config.field(key) + " has " + std::to_string(values.size()) +
                                             " values; there are three channels");
    std::ranges::copy(values, channels.begin());
    return Done{};
}

/// A bound, which has two spellings. Areas both, whatever the names say.
Status read_bound(const ConfigReader& config, const char* plain, const char* of_size, std::uint64_t& bound) {
    if (config.has(plain)) {
        bound = TRY(config.number(plain, pixel_counts));
    } else if (config.has("size")) {
        const ConfigReader size = TRY(config.child("size"));
        if (size.has(of_size)) bound = TRY(size.number(of_size, pixel_counts));
    }
    return Done{};
}

/// To the nearest whole number, ties to even, whatever the rounding mode of the process is.
double round_half_even(double value) {
    const double floor = std::floor(value), part = value - floor;
    if (part != 0.5) return std::round(value);
    return std::fmod(floor, 2) == 0 ? floor : floor + 1;
}

}  // namespace

Result<Preprocessor> Preprocessor::read(const Json* file) {
    Preprocessor p;
    if (!file) return p;
    const ConfigReader whole(*file, "preprocessor_config.json");
    const ConfigReader config = TRY(whole.child_or_self("image_processor"));
    for (const char* key : {"do_resize", "do_rescale", "do_normalize", "do_convert_rgb"})
        TRY(expect_step(config, key));
    constexpr std::uint32_t bicubic = 3;
    if (const auto resample = TRY(config.number_or("resample", bicubic, {0, 100})); resample != bicubic)
        return fail(Fault::unsupported, config.field("resample") + " is " + std::to_string(resample) +
                                            "; images are resized by the bicubic rule (3) here");
    p.side_ = TRY(config.number_or("patch_size", p.side_, {1, 256}));
    p.block_ = TRY(config.number_or("merge_size", p.block_, {1, 16}));
    p.frames_ = TRY(config.number_or("temporal_patch_size", p.frames_, {1, 16}));
    TRY(read_bound(config, "min_pixels", "shortest_edge", p.pixels_least_));
    TRY(read_bound(config, "max_pixels", "longest_edge", p.pixels_most_));
    TRY(read_channels(config, "image_mean", -1e6, p.mean_));
    TRY(read_channels(config, "image_std", 1e-6, p.deviation_));
    p.rescale_ = TRY(config.real_or("rescale_factor", p.rescale_, {1e-9, 1e9}));
    const std::uint64_t block_pixels = std::uint64_t(p.side_) * p.block_ * p.side_ * p.block_;
    if (p.pixels_most_ < std::max(p.pixels_least_, block_pixels))
        return fail(Fault::corrupt_file, "preprocessor_config.json: the most pixels of an image are " +
                                             std::to_string(p.pixels_most_) +
                                             ", fewer than the least, or than one token stands for");
    return p;
}

void Preprocessor::limit_patches(std::uint32_t patches) {
    pixels_most_ = std::min(pixels_most_, std::uint64_t(patches) * side_ * side_);
    pixels_least_ = std::min(pixels_least_, pixels_most_);
}

/// Source: `smart_resize` of the family's image processor, in the same order of operations.
Result<Preprocessor::Extent> Preprocessor::extent_of(std::uint32_t width, std::uint32_t height) const {
    constexpr double ratio_most = 200;
    const double w = width, h = height, factor = double(side_) * block_;
    if (std::max(w, h) / std::min(w, h) > ratio_most)
        return fail(Fault::invalid_input, "the image is " + std::to_string(width) + " x " +
                                              std::to_string(height) +
                                              " pixels; one side may be 200 times the other at most: cut it");
    double to_w = round_half_even(w / factor) * factor, to_h = round_half_even(h / factor) * factor;
    if (to_w * to_h > double(pixels_most_)) {
        const double shrink = std::sqrt(h * w / double(pixels_most_));
        to_w = std::max(factor, std::floor(w / shrink / factor) * factor);
        to_h = std::max(factor, std::floor(h / shrink / factor) * factor);
    } else if (to_w * to_h < double(pixels_least_)) {
        const double grow = std::sqrt(double(pixels_least_) / (h * w));
        to_w = std::ceil(w * grow / factor) * factor;
        to_h = std::ceil(h * grow / factor) * factor;
    }
    return Extent{std::uint32_t(to_w), std::uint32_t(to_h)};
}

Result<Picture> Preprocessor::picture(Pixels pixels) const {
    const Extent extent = TRY(extent_of(pixels.width, pixels.height));
    const Pixels sized = resize(std::move(pixels), extent.width, extent.height);
    Picture picture{
        .rows = extent.height / side_, .columns = extent.width / side_, .side = side_, .block = block_};
    for (std::size_t c = 0; c < 3; ++c) {
        picture.scale[c] = float(rescale_ / deviation_[c]);
        picture.shift[c] = float(-mean_[c] / deviation_[c]);
    }
    picture.pixels.resize(sized.rgb.size());
    std::uint8_t* to = picture.pixels.data();
    for (std::uint32_t block_y = 0; block_y < picture.rows; block_y += block_)
        for (std::uint32_t block_x = 0; block_x < picture.columns; block_x += block_)
            for (std::uint32_t patch = 0; patch < block_ * block_; ++patch) {
                const std::size_t y = std::size_t(block_y + patch / block_) * side_,
                                  x = std::size_t(block_x + patch % block_) * side_;
                for (std::size_t c = 0; c < 3; ++c)
                    for (std::size_t row = y; row < y + side_; ++row)
                        for (std::size_t column = x; column < x + side_; ++column)
                            *to++ = sized.row(row)[column * 3 + c];
            }
    return picture;
}

}  // namespace kapitsa

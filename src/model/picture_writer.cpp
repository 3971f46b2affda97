#include "model/picture_writer.h"

#include <numeric>
#include <vector>

#include "kernels/attend.h"

namespace kapitsa {

Result<PictureWriter> PictureWriter::make(Backend& backend, const TowerShape& shape, std::uint32_t patches) {
    PictureWriter writer;
    writer.backend_ = &backend;
    writer.pixels_ = TRY(backend.allocate(std::size_t(patches) * 3 * shape.side * shape.side));
    writer.positions_ = TRY(backend.allocate(std::size_t(patches) * position_axes * sizeof(std::uint32_t)));
    writer.places_ = TRY(backend.allocate(std::size_t(patches) * sizeof(std::uint32_t)));
    writer.segment_ = TRY(backend.allocate(sizeof(SegmentRows)));
    std::vector<std::uint32_t> places(patches);
    std::iota(places.begin(), places.end(), 0u);
    backend.write(writer.places_, std::as_bytes(std::span(places)));
    return writer;
}

PictureBatch PictureWriter::write(const Picture& picture) {
    std::vector<std::uint32_t> positions;
    positions.reserve(std::size_t(picture.patches()) * position_axes);
    for (std::uint32_t y = 0; y < picture.rows; y += picture.block)
        for (std::uint32_t x = 0; x < picture.columns; x += picture.block)
            for (std::uint32_t i = 0; i < picture.block * picture.block; ++i)
                positions.insert(positions.end(), {0, y + i / picture.block, x + i % picture.block});
    const SegmentRows all{.sequence = 0,
                          .first_row = 0,
                          .rows = picture.patches(),
                          .committed = 0,
                          .first_page = 0,
                          .commit = 1};
    backend_->write(pixels_, std::as_bytes(std::span(picture.pixels)));
    backend_->write(positions_, std::as_bytes(std::span(positions)));
    backend_->write(segment_, std::as_bytes(std::span(&all, 1)));
    return {.rows = picture.rows,
            .columns = picture.columns,
            .scale = picture.scale,
            .shift = picture.shift,
            .pixels = pixels_,
            .positions = positions_,
            .places = places_,
            .segment = segment_};
}

}  // namespace kapitsa

// Lays a picture out for the device: from Picture to the arrays of PictureBatch.
#pragma once

#include "backend/backend.h"
#include "base/picture.h"
#include "model/tower.h"

namespace kapitsa {

class PictureWriter {
public:
    /// `patches`: the most of one picture.
    static Result<PictureWriter> make(Backend& backend, const TowerShape& shape, std::uint32_t patches);

    /// Valid until the next call.
    PictureBatch write(const Picture& picture);

private:
    Backend* backend_ = nullptr;
    Address pixels_, positions_, places_, segment_;
};

}  // namespace kapitsa

// What pictures became in the model's stream. A conversation shows its pictures again with every question, so
// the last ones are kept. The engine thread's alone.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include "base/picture.h"
#include "model/runner.h"

namespace kapitsa {

class Sights {
public:
    using Rows = std::shared_ptr<const std::vector<float>>;  // [tokens, width]

    /// What is kept beyond this many bytes is forgotten, the oldest first.
    explicit Sights(std::size_t bytes_most) : bytes_most_(bytes_most) {}

    /// As the runner sees it, or saw a picture of the same pixels.
    Result<Rows> of(const std::shared_ptr<const Picture>& picture, Runner& runner);

private:
    struct Seen {
        std::shared_ptr<const Picture> picture;
        Rows rows;
        std::size_t bytes() const { return picture->pixels.size() + rows->size() * sizeof(float); }
    };
    std::size_t bytes_most_, bytes_ = 0;
    std::deque<Seen> seen_;  // in the order of their last use
};

}  // namespace kapitsa

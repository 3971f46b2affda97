// The feed-forward layer without a gate: down(relu(up x)^2).
#pragma once

#include <string>

#include "model/recorder.h"
#include "model/weights.h"

namespace kapitsa {

class SquaredReluLayer {
public:
    static Result<SquaredReluLayer> load(Weights& weights, const std::string& module, std::uint32_t width,
                                         std::uint32_t inner) {
        SquaredReluLayer layer;
        layer.up_ = TRY(weights.matrix(module + ".up_proj", inner, width));
        layer.down_ = TRY(weights.matrix(module + ".down_proj", width, inner));
        return layer;
    }

    std::uint64_t bytes() const { return up_.bytes() + down_.bytes(); }

    /// y += the layer of x. Both are [rows, width].
    void add(Tensor x, Tensor y, Recorder& r) const {
        const auto scope = r.scope();
        r.multiply_add(down_, r.squared_relu(r.multiply(up_, x)), y);
    }

private:
    Weight up_, down_;
};

}  // namespace kapitsa

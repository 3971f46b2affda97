// The gated feed-forward layer: down(silu(gate x) * up x).
#pragma once

#include <string>

#include "model/recorder.h"
#include "model/weights.h"

namespace kapitsa {

class SwiGluLayer {
public:
    static Result<SwiGluLayer> load(Weights& weights, const std::string& module, std::uint32_t width,
                                    std::uint32_t inner) {
        SwiGluLayer layer;
        layer.gate_ = TRY(weights.matrix(module + ".gate_proj", inner, width));
        layer.up_ = TRY(weights.matrix(module + ".up_proj", inner, width));
        layer.down_ = TRY(weights.matrix(module + ".down_proj", width, inner));
        return layer;
    }

    std::uint64_t bytes() const { return gate_.bytes() + up_.bytes() + down_.bytes(); }

    /// The layer of x, [rows, width].
    Tensor compute(Tensor x, Recorder& r) const {
        const auto [gate, up] = r.multiply_all({&gate_, &up_}, x);
        return r.multiply(down_, r.swiglu(gate, up));
    }

    /// y += the layer of x. Both are [rows, width].
    void add(Tensor x, Tensor y, Recorder& r) const {
        const auto scope = r.scope();
        const auto [gate, up] = r.multiply_all({&gate_, &up_}, x);
        r.multiply_add(down_, r.swiglu(gate, up), y);
    }

private:
    Weight gate_, up_, down_;
};

}  // namespace kapitsa

// The second half of a decoder layer, dense or of experts: what a family with both kinds keeps of each layer.
#pragma once

#include <variant>

#include "model/layers/experts.h"
#include "model/layers/swiglu.h"

namespace kapitsa {

class FeedForward {
public:
    struct Numbers {
        std::uint32_t width = 0;
        std::uint32_t inner = 0;   // of a dense layer
        Experts::Numbers experts;  // without experts the layer is dense
    };

    static Result<FeedForward> load(Weights& weights, const std::string& module, const Numbers& n) {
        FeedForward layer;
        if (n.experts.router.experts > 0)
            layer.kind_ = TRY(Experts::load(weights, module, n.experts));
        else
            layer.kind_ = TRY(SwiGluLayer::load(weights, module, n.width, n.inner));
        return layer;
    }

    std::uint64_t bytes() const {
        return std::visit([](const auto& layer) { return layer.bytes(); }, kind_);
    }
    /// y += the layer of x. Both are [rows, width].
    void add(Tensor x, Tensor y, Recorder& r) const {
        std::visit([&](const auto& layer) { layer.add(x, y, r); }, kind_);
    }

private:
    std::variant<SwiGluLayer, Experts> kind_;
};

}  // namespace kapitsa

// A feed-forward layer of experts without gates, down(relu(up v)^2), beside one that every row has. The
// chosen experts may work in a latent space of fewer dimensions: a row goes in once, and the sum of what they
// say comes out once. Router and shared expert see the stream itself. See layers/experts.h.
#pragma once

#include <string>

#include "model/layers/experts.h"
#include "model/layers/squared_relu.h"

namespace kapitsa {

class SquaredReluExperts {
public:
    struct Numbers {
        std::uint32_t width = 0, inner = 0;  // of the stream, and within an expert
        std::uint32_t latent = 0;            // width of the experts' own space; 0: they see the stream
        std::uint32_t shared_inner = 0;
        RouterNumbers router;
    };

    /// The tensors of `module` ("backbone.layers.1.mixer").
    static Result<SquaredReluExperts> load(Weights& weights, const std::string& module,
                                           const Numbers& numbers);

    /// Read for one row: not of experts that it does not choose.
    std::uint64_t bytes() const;

    /// y += the layer of x. Both are [rows, width].
    void add(Tensor x, Tensor y, Recorder& r) const;

private:
    /// What the chosen experts say of v, by place in the groups.
    Tensor compute(Tensor v, const Router::Choices& choices, Recorder& r) const;

    Numbers numbers_;
    Router router_;
    ExpertWeights up_, down_;
    SquaredReluLayer shared_;
    Weight into_latent_, out_of_latent_;
};

}  // namespace kapitsa

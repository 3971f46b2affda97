// A feed-forward layer of experts: a router chooses a few of many small gated layers for each row, and adds
// up what they say; beside them may stand a shared expert that every row has. See kernels/experts.h.
#pragma once

#include <string>
#include <vector>

#include "model/layers/swiglu.h"
#include "model/recorder.h"
#include "model/weights.h"

namespace kapitsa {

/// How a router makes weights of its logits.
struct RouterNumbers {
    enum class Scores { softmax, sigmoid };

    std::uint32_t experts = 0, picks = 0;       // of the layer, and of one row
    std::uint32_t groups = 1, groups_kept = 1;  // see Route
    Scores scores = Scores::softmax;            // softmax: over all experts
    bool normalise = true;                      // the weights of a row's choices add up to `scale`
    float epsilon = 0;                          // beside the sum by which they are divided
    float scale = 1;
};

class Router {
public:
    /// What a row chose, and the rows in groups by what they chose.
    struct Choices {
        Tensor weights;  // [rows, picks]
        Address places;  // uint [rows, picks]
        Address from;    // uint [rows * picks]
        ExpertGroups groups;
    };

    /// The tensors of `module` ("model.layers.0.mlp.gate"): a matrix, and what corrects the choices if it is
    /// there.
    static Result<Router> load(Weights& weights, const std::string& module, std::uint32_t width,
                               const RouterNumbers& numbers);

    const Weight& matrix() const { return matrix_; }
    const RouterNumbers& numbers() const { return numbers_; }

    /// @param logits [rows, experts], of matrix()
    Choices choose(Tensor logits, Recorder& r) const;

private:
    RouterNumbers numbers_;
    Weight matrix_;
    Tensor correction_;  // [1, experts], or none
};

/// The matrix `name` ("gate_proj") of each expert, found under the names that are in use:
/// `module`.experts.7.NAME, one tensor for each; `module`.experts.NAME and `module`.switch_mlp.NAME, one for
/// all.
Result<std::vector<Weight>> find_experts(Weights& weights, const std::string& module, const std::string& name,
                                         std::uint32_t experts, std::uint32_t rows, std::uint32_t columns);

class Experts {
public:
    struct Numbers {
        std::uint32_t width = 0, inner = 0;  // of the stream, and within an expert
        RouterNumbers router;
        std::uint32_t shared_inner = 0;  // within the shared expert; 0: there is none
        bool shared_gated = false;       // it is weighed by a sigmoid of its own
    };

    /// The tensors of `module` ("model.layers.0.mlp"): gate, experts, shared_expert, shared_expert_gate.
    static Result<Experts> load(Weights& weights, const std::string& module, const Numbers& numbers);

    /// Read for one row: not of experts that it does not choose.
    std::uint64_t bytes() const;

    /// y += the layer of x. Both are [rows, width].
    void add(Tensor x, Tensor y, Recorder& r) const;

private:
    /// What the chosen experts say of x, by place in the groups.
    Tensor compute(Tensor x, const Router::Choices& choices, Recorder& r) const;

    Numbers numbers_;
    Router router_;
    ExpertWeights gate_, up_, down_;
    SwiGluLayer shared_;
    Weight shared_gate_;
};

}  // namespace kapitsa

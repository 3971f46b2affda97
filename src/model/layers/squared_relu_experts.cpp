#include "model/layers/squared_relu_experts.h"

#include "kernels/experts.h"

namespace kapitsa {
namespace {

/// MLX files call the stacked matrices fc1 and fc2.
Result<std::vector<Weight>> find_either(Weights& weights, const std::string& module, const std::string& name,
                                        const std::string& mlx_name, std::uint32_t experts,
                                        std::uint32_t rows, std::uint32_t columns) {
    const std::string stacked = module + ".switch_mlp." + mlx_name + ".weight";
    return find_experts(weights, module, weights.has(stacked) ? mlx_name : name, experts, rows, columns);
}

}  // namespace

Result<SquaredReluExperts> SquaredReluExperts::load(Weights& weights, const std::string& module,
                                                    const Numbers& n) {
    SquaredReluExperts layer;
    layer.numbers_ = n;
    layer.router_ = TRY(Router::load(weights, module + ".gate", n.width, n.router));
    layer.shared_ = TRY(SquaredReluLayer::load(weights, module + ".shared_experts", n.width, n.shared_inner));
    const std::uint32_t experts = n.router.experts, space = n.latent ? n.latent : n.width;
    const auto up = TRY(find_either(weights, module, "up_proj", "fc1", experts, n.inner, space));
    const auto down = TRY(find_either(weights, module, "down_proj", "fc2", experts, space, n.inner));
    layer.up_ = TRY(weights.experts(module, up));
    layer.down_ = TRY(weights.experts(module, down));
    if (n.latent == 0) return layer;
    layer.into_latent_ = TRY(weights.matrix(module + ".fc1_latent_proj", n.latent, n.width));
    layer.out_of_latent_ = TRY(weights.matrix(module + ".fc2_latent_proj", n.width, n.latent));
    return layer;
}

std::uint64_t SquaredReluExperts::bytes() const {
    const std::uint64_t one = up_.one.bytes() + down_.one.bytes();
    const std::uint64_t latent = numbers_.latent ? into_latent_.bytes() + out_of_latent_.bytes() : 0;
    return router_.matrix().bytes() + numbers_.router.picks * one + shared_.bytes() + latent;
}

void SquaredReluExperts::add(Tensor x, Tensor y, Recorder& r) const {
    const auto scope = r.scope();
    const Numbers& n = numbers_;
    const Router::Choices choices = router_.choose(r.multiply(router_.matrix(), x), r);
    shared_.add(x, y, r);
    const Tensor said = compute(n.latent ? r.multiply(into_latent_, x) : x, choices, r);
    const Tensor sum = n.latent ? r.place(x.rows, n.latent) : y;
    r.launch(combine_experts_f32, {.x = in(said),
                                   .places = in<uint>(choices.places),
                                   .weights = in(choices.weights),
                                   .shared = nullptr,
                                   .shared_gate = nullptr,
                                   .add = n.latent ? nullptr : in(y),
                                   .y = out(sum),
                                   .rows = x.rows,
                                   .picks = n.router.picks,
                                   .columns = sum.columns});
    if (n.latent) r.multiply_add(out_of_latent_, sum, y);
}

Tensor SquaredReluExperts::compute(Tensor v, const Router::Choices& choices, Recorder& r) const {
    const std::uint32_t places = v.rows * numbers_.router.picks;
    const Tensor grouped = r.place(places, v.columns);
    r.copy_rows(v, choices.from, Address{}, places, grouped.address);
    const auto [up] = r.multiply_experts({&up_}, grouped, choices.groups);
    return r.multiply_experts({&down_}, r.squared_relu(up), choices.groups)[0];
}

}  // namespace kapitsa

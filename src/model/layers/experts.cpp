#include "model/layers/experts.h"

#include "kernels/elementwise.h"
#include "kernels/experts.h"
#include "model/layers/norm.h"

namespace kapitsa {

Result<Router> Router::load(Weights& weights, const std::string& module, std::uint32_t width,
                            const RouterNumbers& n) {
    CHECK(n.picks > 0 && n.groups > 0 && n.experts % n.groups == 0 && n.groups_kept <= n.groups &&
          n.picks <= n.experts / n.groups * n.groups_kept);
    Router router;
    router.numbers_ = n;
    router.matrix_ = TRY(weights.matrix(module, n.experts, width));
    const std::string correction = module + ".e_score_correction_bias";
    if (weights.has(correction)) router.correction_ = TRY(shifted_norm(weights, correction, n.experts, 0));
    return router;
}

Router::Choices Router::choose(Tensor logits, Recorder& r) const {
    const RouterNumbers& n = numbers_;
    const std::uint32_t rows = logits.rows, places = rows * n.picks, groups = std::min(n.experts, places);
    const auto words = [&](std::uint32_t count, std::uint32_t each) { return r.place(count, each).address; };
    const Address chosen = words(rows, n.picks);
    const Choices choices{.weights = r.place(rows, n.picks),
                          .places = words(rows, n.picks),
                          .from = words(places, 1),
                          .groups = {words(groups, sizeof(ExpertGroup) / sizeof(uint)), groups}};
    r.launch(route_f32, {.logits = in(logits),
                         .bias = nullptr,
                         .correction = in(correction_),
                         .chosen = out<uint>(chosen),
                         .weights = out(choices.weights),
                         .rows = rows,
                         .experts = n.experts,
                         .picks = n.picks,
                         .groups = n.groups,
                         .groups_kept = n.groups_kept,
                         .sigmoid = n.scores == RouterNumbers::Scores::sigmoid,
                         .normalise = n.normalise,
                         .epsilon = n.epsilon,
                         .scale = n.scale});
    r.launch(group_by_expert, {.chosen = in<uint>(chosen),
                               .groups = out<ExpertGroup>(choices.groups.address),
                               .from = out<uint>(choices.from),
                               .places = out<uint>(choices.places),
                               .rows = rows,
                               .picks = n.picks,
                               .experts = n.experts});
    return choices;
}

Result<std::vector<Weight>> find_experts(Weights& weights, const std::string& module, const std::string& name,
                                         std::uint32_t experts, std::uint32_t rows, std::uint32_t columns) {
    const std::string each = module + ".experts.";
    if (weights.has(each + "0." + name + ".weight")) {
        std::vector<Weight> all(experts);
        for (std::uint32_t e = 0; e < experts; ++e) {
            std::string one = each;
            one.append(std::to_string(e)).append(".").append(name);
            all[e] = TRY(weights.matrix(one, rows, columns));
        }
        return all;
    }
    const std::string stacks[] = {module + ".switch_mlp." + name, each + name};
    for (const std::string& stack : stacks)
        if (weights.has(stack) || weights.has(stack + ".weight"))
            return weights.stack(stack, experts, rows, columns);
    return fail(Fault::corrupt_file, "the experts of " + module + " are missing: there is no tensor " + each +
                                         "0." + name + ".weight, nor " + each + name + ", nor " + module +
                                         ".switch_mlp." + name + ".weight");
}

namespace {

struct GateAndUp {
    std::vector<Weight> gate, up;
};

/// Two matrices an expert, or one whose first half of rows is the gate.
Result<GateAndUp> load_gate_and_up(Weights& weights, const std::string& module, const Experts::Numbers& n) {
    const std::string both = module + ".experts.gate_up_proj";
    const std::uint32_t experts = n.router.experts;
    GateAndUp matrices;
    if (!weights.has(both) && !weights.has(both + ".weight")) {
        matrices.gate = TRY(find_experts(weights, module, "gate_proj", experts, n.inner, n.width));
        matrices.up = TRY(find_experts(weights, module, "up_proj", experts, n.inner, n.width));
        return matrices;
    }
    const auto stacked = TRY(weights.stack(both, experts, 2 * n.inner, n.width));
    for (const Weight& expert : stacked) {
        matrices.gate.push_back(TRY(cut(expert, both, 0, n.inner)));
        matrices.up.push_back(TRY(cut(expert, both, n.inner, n.inner)));
    }
    return matrices;
}

}  // namespace

Result<Experts> Experts::load(Weights& weights, const std::string& module, const Numbers& n) {
    Experts layer;
    layer.numbers_ = n;
    layer.router_ = TRY(Router::load(weights, module + ".gate", n.width, n.router));
    const GateAndUp inner = TRY(load_gate_and_up(weights, module, n));
    const auto down = TRY(find_experts(weights, module, "down_proj", n.router.experts, n.width, n.inner));
    layer.gate_ = TRY(weights.experts(module, inner.gate));
    layer.up_ = TRY(weights.experts(module, inner.up));
    layer.down_ = TRY(weights.experts(module, down));
    if (n.shared_inner > 0)
        layer.shared_ = TRY(SwiGluLayer::load(weights, module + ".shared_expert", n.width, n.shared_inner));
    if (n.shared_gated) layer.shared_gate_ = TRY(weights.matrix(module + ".shared_expert_gate", 1, n.width));
    return layer;
}

std::uint64_t Experts::bytes() const {
    const std::uint64_t one = gate_.one.bytes() + up_.one.bytes() + down_.one.bytes();
    return router_.matrix().bytes() + numbers_.router.picks * one +
           (numbers_.shared_inner > 0 ? shared_.bytes() : 0) +
           (numbers_.shared_gated ? shared_gate_.bytes() : 0);
}

void Experts::add(Tensor x, Tensor y, Recorder& r) const {
    const auto scope = r.scope();
    const Numbers& n = numbers_;
    Tensor logits, shared_gate, shared;
    if (n.shared_gated) {
        const auto both = r.multiply_all({&router_.matrix(), &shared_gate_}, x);
        logits = both[0];
        shared_gate = both[1];
    } else {
        logits = r.multiply(router_.matrix(), x);
    }
    if (n.shared_inner > 0) shared = shared_.compute(x, r);
    const Router::Choices choices = router_.choose(logits, r);
    const Tensor said = compute(x, choices, r);
    r.launch(combine_experts_f32, {.x = in(said),
                                   .places = in<uint>(choices.places),
                                   .weights = in(choices.weights),
                                   .shared = in(shared),
                                   .shared_gate = in(shared_gate),
                                   .add = in(y),
                                   .y = out(y),
                                   .rows = x.rows,
                                   .picks = n.router.picks,
                                   .columns = n.width});
}

Tensor Experts::compute(Tensor x, const Router::Choices& choices, Recorder& r) const {
    const std::uint32_t places = x.rows * numbers_.router.picks;
    const Tensor inner = r.place(places, numbers_.inner);
    {
        const auto scope = r.scope();
        const Tensor grouped = r.place(places, numbers_.width);
        r.copy_rows(x, choices.from, Address{}, places, grouped.address);
        const auto [gate, up] = r.multiply_experts({&gate_, &up_}, grouped, choices.groups);
        r.launch(swiglu_f32, {in(gate), in(up), out(inner), places * numbers_.inner});
    }
    return r.multiply_experts({&down_}, inner, choices.groups)[0];
}

}  // namespace kapitsa

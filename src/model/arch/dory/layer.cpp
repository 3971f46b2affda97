#include "model/arch/dory/layer.h"

#include <cmath>

#include "kernels/unit_norm.h"

namespace kapitsa::looped {

Result<GatedAttention> GatedAttention::load(Weights& weights, const std::string& module, const Numbers& n,
                                            const LayerNumbers& own) {
    GatedAttention layer;
    const std::uint32_t queries = n.heads * n.head_width, keys = n.kv_heads * n.head_width;
    // A unit vector is the norm by root mean square, over the root of the width, and so is its epsilon.
    const double root = std::sqrt(double(n.head_width));
    AttentionHeads& heads = layer.heads_;
    heads.heads = n.heads;
    heads.kv_heads = n.kv_heads;
    heads.width = heads.rotary = heads.query_width = n.head_width;
    heads.window = own.windowed ? n.window : 0;
    heads.rotates_first = true;
    heads.epsilon = epsilon / float(n.head_width);
    heads.q_norm = TRY(changed_vector(weights, module + ".sqk", queries, [&](double value) {
        return std::pow(value * root / n.init_std, 2) / root;
    }));
    const std::vector<float> plain(n.head_width, float(1 / root));
    heads.k_norm = TRY(weights.upload(plain, 1, n.head_width));
    layer.q_ = TRY(weights.matrix(module + ".q_proj", queries, n.width));
    layer.k_ = TRY(weights.matrix(module + ".k_proj", keys, n.width));
    layer.v_ = TRY(weights.matrix(module + ".v_proj", keys, n.width));
    layer.gate_ = TRY(weights.matrix(module + ".g_proj", queries, n.width));
    layer.o_ = TRY(weights.matrix(module + ".o_proj", n.width, queries));
    layer.gate_scale_ = TRY(changed_vector(weights, module + ".s_gate", queries, [&](double value) {
        return std::pow(value * std::sqrt(n.gate_init) / n.init_std, 2);
    }));
    return layer;
}

Tensor GatedAttention::compute(Tensor x, const Rope& rope, const Batch& batch, const AttentionMemory& memory,
                               Recorder& r) const {
    const auto [q, k, v, gate] = r.multiply_all({&q_, &k_, &v_, &gate_}, x);
    const Tensor o = heads_.attend(q, k, v, rope, batch, memory, r);
    r.launch(unit_gated_f32, {in(o), in(gate), in(gate_scale_), out(o), o.rows, o.columns, epsilon});
    return r.multiply(o_, o);
}

Result<UnitSwiGluLayer> UnitSwiGluLayer::load(Weights& weights, const std::string& module, const Numbers& n) {
    UnitSwiGluLayer layer;
    const auto scaled = [root = std::sqrt(double(n.width))](double value) { return value * root; };
    layer.gate_ = TRY(weights.matrix(module + ".gate_proj", n.inner, n.width));
    layer.up_ = TRY(weights.matrix(module + ".up_proj", n.inner, n.width));
    layer.down_ = TRY(weights.matrix(module + ".down_proj", n.width, n.inner));
    layer.gate_scale_ = TRY(changed_vector(weights, module + ".suv_gate", n.inner, scaled));
    layer.up_scale_ = TRY(changed_vector(weights, module + ".suv_up", n.inner, scaled));
    return layer;
}

Tensor UnitSwiGluLayer::compute(Tensor x, Recorder& r) const {
    const auto [gate, up] = r.multiply_all({&gate_, &up_}, x);
    r.launch(unit_swiglu_f32,
             {in(gate), in(up), in(gate_scale_), in(up_scale_), out(gate), gate.rows, gate.columns, epsilon});
    return r.multiply(down_, gate);
}

Result<Layer> Layer::load(Weights& weights, const std::string& module, const Numbers& n,
                          const LayerNumbers& own) {
    Layer layer;
    const std::string mixer = module + ".mixer";
    if (own.attends)
        layer.mixer_ = TRY(GatedAttention::load(weights, mixer, n, own));
    else
        layer.mixer_ = TRY(UnitSwiGluLayer::load(weights, mixer, n));
    layer.share_ =
        TRY(changed_vector(weights, module + (own.attends ? ".attn_alpha" : ".mlp_alpha"), n.width,
                           [&](double value) { return std::abs(value * n.alpha_init / n.init_std); }));
    return layer;
}

std::uint64_t Layer::bytes() const {
    return std::visit([](const auto& mixer) { return mixer.bytes(); }, mixer_);
}

void Layer::step(Tensor x, std::uint32_t place, const Rope& rope, const Batch& batch,
                 const ModelMemory& memory, Recorder& r) const {
    const auto scope = r.scope();
    const auto* attention = std::get_if<GatedAttention>(&mixer_);
    const Tensor said = attention ? attention->compute(x, rope, batch, memory.attention[place], r)
                                  : std::get<UnitSwiGluLayer>(mixer_).compute(x, r);
    r.launch(unit_step_f32, {in(x), in(said), in(share_), out(x), x.rows, x.columns, epsilon});
}

}  // namespace kapitsa::looped

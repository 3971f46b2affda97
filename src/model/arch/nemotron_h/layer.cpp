#include "model/arch/nemotron_h/layer.h"

#include "model/layers/norm.h"

namespace kapitsa::nemotron {
namespace {

Mamba2::Numbers mamba_numbers(const Numbers& n) {
    return {.width = n.width,
            .heads = n.mamba_heads,
            .head_width = n.mamba_head_width,
            .groups = n.groups,
            .state_width = n.state_width,
            .taps = n.taps,
            .conv_biased = n.conv_biased,
            .least_step = n.least_step,
            .most_step = n.most_step,
            .epsilon = n.epsilon};
}

/// There is no rotation, whatever rope_theta a file has: the order comes from the recurrent layers.
Attention::Numbers attention_numbers(const Numbers& n) {
    return {.width = n.width,
            .heads = n.heads,
            .kv_heads = n.kv_heads,
            .head_width = n.head_width,
            .rotary = 0,
            .gated = false,
            .normed = false,
            .epsilon = n.epsilon};
}

SquaredReluExperts::Numbers expert_numbers(const Numbers& n, const ExpertNumbers& own) {
    return {.width = n.width,
            .inner = own.inner,
            .latent = own.latent,
            .shared_inner = own.shared_inner,
            .router = {.experts = own.experts,
                       .picks = own.used,
                       .groups = n.expert_groups,
                       .groups_kept = n.groups_used,
                       .scores = RouterNumbers::Scores::sigmoid,
                       .normalise = n.normed_weights,
                       .epsilon = 1e-20f,
                       .scale = n.expert_scale}};
}

}  // namespace

Result<Layer> Layer::load(Weights& weights, const std::string& module, const Numbers& n,
                          const LayerNumbers& own, Memories& memories) {
    Layer layer;
    layer.epsilon_ = n.epsilon;
    layer.norm_ = TRY(shifted_norm(weights, module + ".norm.weight", n.width, 0));
    const std::string mixer = module + ".mixer";
    switch (own.kind) {
        case Kind::mamba: {
            const auto place = std::uint32_t(memories.recurrent.size());
            const Mamba2 mamba = TRY(Mamba2::load(weights, mixer, mamba_numbers(n), place));
            memories.recurrent.push_back(mamba.shape());
            layer.mixer_ = mamba;
            return layer;
        }
        case Kind::attention: {
            const auto place = memories.first_attention + std::uint32_t(memories.attention.size());
            const Attention attention = TRY(Attention::load(weights, mixer, attention_numbers(n), place));
            // Scales for a cache of 8 bits; ours has 32.
            for (const char* scale : {".k_proj.k_scale", ".v_proj.v_scale"}) weights.set_aside(mixer + scale);
            memories.attention.push_back(attention.shape());
            layer.mixer_ = attention;
            return layer;
        }
        case Kind::mlp:
            layer.mixer_ = TRY(SquaredReluLayer::load(weights, mixer, n.width, n.inner));
            return layer;
        case Kind::experts:
            layer.mixer_ = TRY(SquaredReluExperts::load(weights, mixer, expert_numbers(n, own.experts)));
            return layer;
    }
    CHECK(false && "a kind of layer");
}

std::uint64_t Layer::bytes() const {
    return std::visit([](const auto& mixer) { return mixer.bytes(); }, mixer_);
}

void Layer::add(Tensor x, const Batch& batch, const ModelMemory& memory, Recorder& r) const {
    const auto scope = r.scope();
    const Tensor h = r.rms_norm(x, norm_, epsilon_);
    if (const auto* mamba = std::get_if<Mamba2>(&mixer_)) return mamba->add(h, x, batch, memory, r);
    if (const auto* attention = std::get_if<Attention>(&mixer_))
        return attention->add(h, x, Rope{}, batch, memory, r);
    if (const auto* mlp = std::get_if<SquaredReluLayer>(&mixer_)) return mlp->add(h, x, r);
    std::get<SquaredReluExperts>(mixer_).add(h, x, r);
}

void Layer::commit(const CommitBatch& batch, const ModelMemory& memory, Recorder& r) const {
    if (const auto* mamba = std::get_if<Mamba2>(&mixer_)) mamba->commit(batch, memory, r);
}

}  // namespace kapitsa::nemotron

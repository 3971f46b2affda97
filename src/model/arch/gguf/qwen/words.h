// What the GGUF files of Qwen's hybrid families say alike: attention and delta nets, a module that drafts
// behind the trunk's blocks, the settings of both. Value heads of the delta net lie in another order there
// (key head t % key heads, not t / copies), which the configuration says and the layer follows; decays are
// stored as -exp(A_log).
#pragma once

#include <vector>

#include "model/gguf_dialect.h"

namespace kapitsa::gguf::qwen {

constexpr GgufName of_feed_forward[] = {
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
    {"ffn_gate_inp", "mlp.gate"},
    {"ffn_gate_exps", "mlp.switch_mlp.gate_proj"},
    {"ffn_up_exps", "mlp.switch_mlp.up_proj"},
    {"ffn_down_exps", "mlp.switch_mlp.down_proj"},
    {"ffn_gate_up_exps", "mlp.experts.gate_up_proj"},
    {"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
    {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
    {"ffn_down_shexp", "mlp.shared_expert.down_proj"},
    {"ffn_gate_inp_shexp", "mlp.shared_expert_gate", GgufShape::one_row},
};

struct Layers {
    std::uint32_t trunk = 0, next_tokens = 0;
    std::vector<bool> attends;  // [trunk]
};

Result<Layers> read_layers(const GgufTranslation& file);

/// What config.json says of the model, its attention and its delta nets; not of its feed-forward layers.
Result<Json> read_model(const GgufTranslation& file, const Layers& layers);
Status read_experts(const GgufTranslation& file, const Layers& layers, Json& config);

/// The tensors of a block that attends, or has a delta net, and its feed-forward layer. @param config of
/// read_model
Status rename_layer(GgufTranslation& file, std::uint32_t block, const std::string& prefix, bool attends,
                    const Json& config);
/// Some files hold the vision tower as well, in words of their own: it is left aside, as text needs none.
Status rename_vision(GgufTranslation& file);

}  // namespace kapitsa::gguf::qwen

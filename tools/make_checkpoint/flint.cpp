// Flint: attention with windows and sinks, experts behind two dense layers; shapes as publicly described.
#include "make_checkpoint/plan.h"

namespace kapitsa::random_checkpoint {
namespace {

struct Numbers {
    std::string_view name;
    std::uint32_t width, layers, heads, kv_heads, head_width, inner, experts, picks, expert_inner, shared,
        vocabulary, window;
};

constexpr Numbers all[] = {
    {"flint-40b-a2.5b", 2048, 49, 32, 4, 128, 6144, 256, 6, 512, 1024, 150144, 513},
    {"flint-tiny", 256, 4, 4, 2, 64, 512, 8, 2, 128, 256, 8320, 9},
};

/// Layers 0, 1, 5, 9, ..., and the last have no window and do not rotate.
bool sees_all(std::uint32_t layer, std::uint32_t layers) {
    return layer == 0 || layer % 4 == 1 || layer + 1 == layers;
}

Json config_of(const Numbers& n) {
    Json config{{"architectures", {"FlintForCausalLM"}},
                {"model_type", "flint"},
                {"vocab_size", n.vocabulary},
                {"hidden_size", n.width},
                {"num_hidden_layers", n.layers},
                {"head_dim", n.head_width},
                {"num_attention_heads", n.heads},
                {"num_key_value_heads", n.kv_heads},
                {"intermediate_size", n.inner},
                {"hidden_act", "silu"},
                {"num_experts", n.experts},
                {"num_experts_per_tok", n.picks},
                {"moe_intermediate_size", n.expert_inner},
                {"shared_expert_intermediate_size", n.shared},
                {"norm_topk_prob", true},
                {"mlp_only_layers", {0, 1}},
                {"sliding_window", n.window},
                {"rope_theta", 10000.0},
                {"rms_norm_eps", 1e-6},
                {"attention_bias", false},
                {"tie_word_embeddings", false},
                {"max_position_embeddings", 262144}};
    Json types = Json::array(), still = Json::array();
    for (std::uint32_t i = 0; i < n.layers; ++i) {
        types.push_back(sees_all(i, n.layers) ? "full_attention" : "sliding_attention");
        if (sees_all(i, n.layers)) still.push_back(i);
    }
    config["layer_types"] = std::move(types);
    config["no_rope_layer_indices"] = std::move(still);
    return config;
}

void add_swiglu(Plan& plan, const std::string& module, std::uint64_t width, std::uint64_t inner) {
    plan.matrix(module + ".gate_proj", {inner, width});
    plan.matrix(module + ".up_proj", {inner, width});
    plan.matrix(module + ".down_proj", {width, inner});
}

void add_attention(Plan& plan, const std::string& module, const Numbers& n) {
    const std::uint64_t queries = std::uint64_t(n.heads) * n.head_width,
                        keys = std::uint64_t(n.kv_heads) * n.head_width;
    plan.matrix(module + ".q_proj", {queries, n.width});
    plan.matrix(module + ".k_proj", {keys, n.width});
    plan.matrix(module + ".v_proj", {keys, n.width});
    plan.matrix(module + ".o_proj", {n.width, queries});
    for (const char* norm : {".q_norm.weight", ".k_norm.weight"})
        plan.plain(module + norm, {n.head_width}, 0.8f, 1.2f);
    plan.f32(module + ".softmax_offset", {n.heads}, -1, 1);
}

void add_moe(Plan& plan, const std::string& module, const Numbers& n, ExpertLayout layout) {
    plan.plain(module + ".gate.weight", {n.experts, n.width}, 0, 0);
    for (const std::string name : {"gate_proj", "up_proj"})
        add_experts(plan, module, name, name, layout, n.experts, n.expert_inner, n.width);
    add_experts(plan, module, "down_proj", "down_proj", layout, n.experts, n.width, n.expert_inner);
    add_swiglu(plan, module + ".shared_expert", n.width, n.shared);
}

}  // namespace

std::optional<Plan> plan_flint(std::string_view shape, std::uint32_t layers, ExpertLayout experts) {
    for (Numbers n : all) {
        if (n.name != shape) continue;
        if (layers > 0) n.layers = std::max(2u, std::min(layers, n.layers));
        Plan plan{.config = config_of(n), .tensors = {}};
        plan.matrix("model.embed_tokens", {n.vocabulary, n.width}, PlannedTensor::Role::vocabulary);
        for (std::uint32_t i = 0; i < n.layers; ++i) {
            const std::string block = "model.layers." + std::to_string(i);
            plan.plain(block + ".input_layernorm.weight", {n.width}, 0.8f, 1.2f);
            add_attention(plan, block + ".self_attn", n);
            plan.plain(block + ".post_attention_layernorm.weight", {n.width}, 0.8f, 1.2f);
            if (i < 2)
                add_swiglu(plan, block + ".mlp", n.width, n.inner);
            else
                add_moe(plan, block + ".mlp", n, experts);
        }
        plan.plain("model.norm.weight", {n.width}, 0.8f, 1.2f);
        plan.matrix("lm_head", {n.vocabulary, n.width}, PlannedTensor::Role::vocabulary);
        return plan;
    }
    return std::nullopt;
}

}  // namespace kapitsa::random_checkpoint

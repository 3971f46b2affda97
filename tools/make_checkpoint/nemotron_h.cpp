// Nemotron-H: Mamba-2, attention, squared-ReLU layers, experts; names and shapes as published.
#include "make_checkpoint/plan.h"

namespace kapitsa::random_checkpoint {
namespace {

struct Numbers {
    std::string_view name, pattern;
    std::uint32_t width, inner, heads, kv_heads, mamba_heads, mamba_width;
    std::uint32_t experts = 0, picks = 0, expert_inner = 0, shared = 0;
    std::uint32_t head_width = 128, groups = 8, state_width = 128, vocabulary = 131072;
};

constexpr Numbers all[] = {
    {"nemotron-nano-9b-v2", "M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-", 4480, 15680, 40, 8,
     128, 80},
    {"nemotron-3-nano-4b", "M-M-M-MM-M-M*-M-M*-M-M-M*-M-M-MM*-MMM-M-M-", 3136, 12544, 40, 8, 96, 80},
    {"nemotron-3-nano-30b-a3b", "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME", 2688, 1856, 32, 2, 64,
     64, 128, 6, 1856, 3712},
    {"nemotron-tiny", "M-M*-", 256, 512, 4, 2, 4, 64, 0, 0, 0, 0, 64, 2, 32, 8320},
    {"nemotron-moe-tiny", "MEM*E", 256, 512, 4, 2, 4, 64, 8, 2, 128, 256, 64, 2, 32, 8320},
};

Json config_of(const Numbers& n) {
    Json config{{"architectures", {"NemotronHForCausalLM"}},
                {"model_type", "nemotron_h"},
                {"vocab_size", n.vocabulary},
                {"hidden_size", n.width},
                {"num_hidden_layers", n.pattern.size()},
                {"hybrid_override_pattern", n.pattern},
                {"intermediate_size", n.inner},
                {"num_attention_heads", n.heads},
                {"num_key_value_heads", n.kv_heads},
                {"head_dim", n.head_width},
                {"mamba_num_heads", n.mamba_heads},
                {"mamba_head_dim", n.mamba_width},
                {"n_groups", n.groups},
                {"ssm_state_size", n.state_width},
                {"conv_kernel", 4},
                {"use_conv_bias", true},
                {"layer_norm_epsilon", 1e-5},
                {"mlp_hidden_act", "relu2"},
                {"max_position_embeddings", 131072},
                {"tie_word_embeddings", false}};
    if (n.experts == 0) return config;
    config["n_routed_experts"] = n.experts;
    config["n_shared_experts"] = 1;
    config["num_experts_per_tok"] = n.picks;
    config["moe_intermediate_size"] = n.expert_inner;
    config["moe_shared_expert_intermediate_size"] = n.shared;
    config["routed_scaling_factor"] = 2.5;
    config["norm_topk_prob"] = true;
    config["n_group"] = config["topk_group"] = 1;
    return config;
}

void add_mamba(Plan& plan, const std::string& module, const Numbers& n) {
    const std::uint64_t inner = std::uint64_t(n.mamba_heads) * n.mamba_width;
    const std::uint64_t channels = inner + 2ull * n.groups * n.state_width;
    plan.matrix(module + ".in_proj", {inner + channels + n.mamba_heads, n.width});
    plan.plain(module + ".conv1d.weight", {channels, 1, 4}, -0.5f, 0.5f);
    plan.plain(module + ".conv1d.bias", {channels}, -0.1f, 0.1f);
    plan.f32(module + ".A_log", {n.mamba_heads}, 0, 2.5f);
    plan.f32(module + ".D", {n.mamba_heads}, 0.8f, 1.2f);
    plan.f32(module + ".dt_bias", {n.mamba_heads}, -6, -2);
    plan.plain(module + ".norm.weight", {inner}, 0.8f, 1.2f);
    plan.matrix(module + ".out_proj", {n.width, inner});
}

void add_attention(Plan& plan, const std::string& module, const Numbers& n) {
    const std::uint64_t queries = std::uint64_t(n.heads) * n.head_width,
                        keys = std::uint64_t(n.kv_heads) * n.head_width;
    plan.matrix(module + ".q_proj", {queries, n.width});
    plan.matrix(module + ".k_proj", {keys, n.width});
    plan.matrix(module + ".v_proj", {keys, n.width});
    plan.matrix(module + ".o_proj", {n.width, queries});
}

void add_squared_relu(Plan& plan, const std::string& module, std::uint64_t width, std::uint64_t inner) {
    plan.matrix(module + ".up_proj", {inner, width});
    plan.matrix(module + ".down_proj", {width, inner});
}

void add_moe(Plan& plan, const std::string& module, const Numbers& n, ExpertLayout layout) {
    plan.plain(module + ".gate.weight", {n.experts, n.width}, 0, 0);
    plan.f32(module + ".gate.e_score_correction_bias", {n.experts}, -0.01f, 0.01f);
    add_experts(plan, module, "up_proj", "fc1", layout, n.experts, n.expert_inner, n.width);
    add_experts(plan, module, "down_proj", "fc2", layout, n.experts, n.width, n.expert_inner);
    add_squared_relu(plan, module + ".shared_experts", n.width, n.shared);
}

}  // namespace

std::optional<Plan> plan_nemotron_h(std::string_view shape, std::uint32_t layers, ExpertLayout experts) {
    for (Numbers n : all) {
        if (n.name != shape) continue;
        if (layers > 0) n.pattern = n.pattern.substr(0, layers);
        Plan plan{.config = config_of(n), .tensors = {}};
        plan.matrix("backbone.embeddings", {n.vocabulary, n.width}, PlannedTensor::Role::vocabulary);
        for (std::size_t i = 0; i < n.pattern.size(); ++i) {
            const std::string block = "backbone.layers." + std::to_string(i), mixer = block + ".mixer";
            plan.plain(block + ".norm.weight", {n.width}, 0.8f, 1.2f);
            switch (n.pattern[i]) {
                case 'M': add_mamba(plan, mixer, n); break;
                case '*': add_attention(plan, mixer, n); break;
                case 'E': add_moe(plan, mixer, n, experts); break;
                default: add_squared_relu(plan, mixer, n.width, n.inner);
            }
        }
        plan.plain("backbone.norm_f.weight", {n.width}, 0.8f, 1.2f);
        plan.matrix("lm_head", {n.vocabulary, n.width}, PlannedTensor::Role::vocabulary);
        return plan;
    }
    return std::nullopt;
}

}  // namespace kapitsa::random_checkpoint

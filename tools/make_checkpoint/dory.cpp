// Dory: a dense model on the unit sphere whose middle layers run in loops; names and shapes as publicly
// described.
#include "make_checkpoint/plan.h"

namespace kapitsa::random_checkpoint {
namespace {

struct Numbers {
    std::string_view name;
    std::uint32_t width, inner, heads, kv_heads, head_width, vocabulary, window;
    std::uint32_t before, middle, after;  // layers, whole groups of eight
};

constexpr Numbers all[] = {
    {"dory-4b", 2560, 7168, 16, 4, 256, 131072, 1024, 16, 40, 16},
    {"dory-tiny", 256, 512, 4, 2, 64, 8320, 16, 8, 8, 8},
};

Json config_of(const Numbers& n, const std::string& pattern) {
    Json config{{"architectures", {"DoryForCausalLM"}},
                {"model_type", "dory"},
                {"dory_format_version", 1},
                {"vocab_size", n.vocabulary},
                {"hidden_size", n.width},
                {"num_hidden_layers", pattern.size()},
                {"intermediate_size", n.inner},
                {"num_attention_heads", n.heads},
                {"num_key_value_heads", n.kv_heads},
                {"attention_head_dim", n.head_width},
                {"max_position_embeddings", 262144},
                {"tie_word_embeddings", false},
                {"hybrid_layer_pattern", pattern},
                {"swa_window_size", n.window},
                {"rope_theta", 10000},
                {"rope_theta_2", 10000000},
                {"ngpt", true},
                {"fngpt", true},
                {"init_method_std", 0.02},
                {"ngpt_alpha_init", 0.05},
                {"ngpt_enable_final_norm", false},
                {"attention_output_gate", true},
                {"mlp_hidden_act", "silu"},
                {"n_input_layers", n.before},
                {"n_recurrent_layers", n.middle},
                {"n_output_layers", n.after},
                {"n_recurrent_loops", 2},
                {"initial_state", "input_copy"},
                {"input_transform", "residual"},
                {"output_transform", "replace"},
                {"recurrent_kv_cache_mode", "per_loop"}};
    Json profiles = Json::array();
    for (const char kind : pattern) profiles.push_back(kind == '*' ? 2 : 1);
    config["rope_profile_layers"] = std::move(profiles);
    return config;
}

/// The small vectors around the values that training begins with: init_method_std, and its like.
void add_layer(Plan& plan, const std::string& block, bool attends, const Numbers& n) {
    const std::string module = block + ".mixer";
    const std::uint64_t queries = std::uint64_t(n.heads) * n.head_width,
                        keys = std::uint64_t(n.kv_heads) * n.head_width;
    plan.plain(block + (attends ? ".attn_alpha" : ".mlp_alpha"), {n.width}, 0.01f, 0.03f);
    if (attends) {
        for (const char* wide : {".q_proj", ".g_proj"}) plan.matrix(module + wide, {queries, n.width});
        for (const char* narrow : {".k_proj", ".v_proj"}) plan.matrix(module + narrow, {keys, n.width});
        plan.matrix(module + ".o_proj", {n.width, queries});
        for (const char* vector : {".sqk", ".s_gate"}) plan.plain(module + vector, {queries}, 0.015f, 0.025f);
        return;
    }
    for (const char* in : {".gate_proj", ".up_proj"}) plan.matrix(module + in, {n.inner, n.width});
    plan.matrix(module + ".down_proj", {n.width, n.inner});
    for (const char* vector : {".suv_gate", ".suv_up"}) plan.plain(module + vector, {n.inner}, 0.8f, 1.2f);
}

}  // namespace

std::optional<Plan> plan_dory(std::string_view shape, std::uint32_t layers) {
    for (Numbers n : all) {
        if (n.name != shape) continue;
        // The first and last groups stay, as long as there are any to spare.
        if (layers > 0)
            n.middle = layers > n.before + n.after + 8 ? (layers - n.before - n.after) / 8 * 8 : 8;
        if (layers > 0 && layers < n.before + n.after + n.middle) n.before = n.after = 8;
        std::string pattern;
        while (pattern.size() < n.before + n.middle + n.after) pattern += "S-S-S-*-";
        Plan plan{.config = config_of(n, pattern), .tensors = {}};
        plan.matrix("backbone.embeddings", {n.vocabulary, n.width}, PlannedTensor::Role::vocabulary);
        for (std::size_t i = 0; i < pattern.size(); ++i)
            add_layer(plan, "backbone.layers." + std::to_string(i), pattern[i] != '-', n);
        plan.matrix("lm_head", {n.vocabulary, n.width}, PlannedTensor::Role::vocabulary);
        plan.plain("lm_head.logit_scale", {n.vocabulary}, 0.015f, 0.025f);
        return plan;
    }
    return std::nullopt;
}

}  // namespace kapitsa::random_checkpoint

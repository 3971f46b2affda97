// Qwen3.8-Flash-Next: names and shapes as published, text alone, without the head that drafts.
#include <algorithm>
#include <numeric>

#include "make_checkpoint/qwen.h"
#include "model/layers/ngram_hash.h"

namespace kapitsa::random_checkpoint {
namespace {

struct Numbers {
    QwenNumbers qwen;
    std::uint32_t streams, rank;                     // of the residual streams
    std::uint32_t index_heads, index_width, budget;  // of the indexer
    std::uint32_t embedding, table_base, parts;      // of the table of n-grams
};

// The second is a toy but for its table, to measure how rows of it are read.
constexpr Numbers all[] = {
    {{"qwen3.8-flash-next", 2560, 48, 24, 2, 48, 640, false, 512, 10, 640},
     4,
     320,
     4,
     128,
     2048,
     2560,
     20'000'000,
     128},
    {{"qwen3.8-flash-table", 256, 4, 4, 2, 4, 128, false, 8, 2, 128, 2, 64, 32, 8320},
     4,
     32,
     2,
     32,
     64,
     2560,
     200'000,
     8},
    {{"qwen3.8-flash-tiny", 256, 4, 4, 2, 4, 128, false, 8, 2, 128, 2, 64, 32, 8320},
     4,
     32,
     2,
     32,
     64,
     512,
     200,
     4},
};

constexpr std::uint32_t layer_with_table = 1, order = 3, heads_of_order = 8, rows_multiple = 128;

Json config_of(const Numbers& n) {
    const QwenNumbers& q = n.qwen;
    Json config{{"architectures", {"Qwen4ExpForCausalLM"}},
                {"model_type", "qwen4_exp_text"},
                {"vocab_size", q.vocabulary},
                {"hidden_size", q.width},
                {"num_hidden_layers", q.layers},
                {"num_attention_heads", q.heads},
                {"num_key_value_heads", q.kv_heads},
                {"head_dim", q.head_width},
                {"linear_num_key_heads", q.key_heads},
                {"linear_num_value_heads", q.value_heads},
                {"linear_key_head_dim", q.state_width},
                {"linear_value_head_dim", q.state_width},
                {"linear_conv_kernel_dim", 4},
                {"full_attention_interval", 4},
                {"output_gate_type", "sigmoid"},
                {"hidden_act", "silu"},
                {"rms_norm_eps", 1e-6},
                {"max_position_embeddings", 262144},
                {"tie_word_embeddings", q.tied},
                {"num_experts", q.experts},
                {"num_experts_per_tok", q.picks},
                {"moe_intermediate_size", q.inner},
                {"shared_expert_intermediate_size", q.shared},
                {"mtp_num_hidden_layers", 0}};
    config["rope_parameters"] = {{"rope_type", "default"},
                                 {"rope_theta", 1e7},
                                 {"partial_rotary_factor", 0.25},
                                 {"mrope_interleaved", true},
                                 {"mrope_section", {11, 11, 10}}};
    config["hc_count"] = n.streams;
    config["hc_lowrank"] = n.rank;
    config["indexer_n_heads"] = n.index_heads;
    config["indexer_kv_heads"] = 1;
    config["indexer_head_dim"] = n.index_width;
    config["indexer_budget"] = n.budget;
    config["indexer_compress_ratio"] = 4;
    config["ple_layer_ids"] = {layer_with_table + 1};  // counted from 1
    config["ple_embed_dim"] = n.embedding;
    config["ple_conv_kernel_size"] = 4;
    config["ngram_size"] = order;
    config["heads_per_ngram"] = heads_of_order;
    config["ngram_vocab_size_base"] = n.table_base;
    config["make_ngram_vocab_size_divisible_by"] = rows_multiple;
    config["split_ngram_parts"] = n.parts;
    config["eos_token_id"] = q.vocabulary - 1;
    return config;
}

void add_streams(Plan& plan, const std::string& module, const Numbers& n, bool writes) {
    const std::uint64_t wide = std::uint64_t(n.streams) * n.qwen.width;
    plan.plain(module + ".hc_norm.weight", {wide}, -0.2f, 0.2f);
    plan.matrix(module + ".input_mix_weight_down", {n.rank, wide});
    plan.matrix(module + ".input_mix_weight_up", {wide, n.rank});
    if (writes) plan.plain(module + ".block_inject_weight.weight", {n.streams, wide}, 0, 0);
}

void add_indexer(Plan& plan, const std::string& module, const Numbers& n) {
    plan.plain(module + ".index_qk_proj.weight", {(n.index_heads + 1ull) * n.index_width, n.qwen.width}, 0,
               0);
    for (const char* norm : {".q_layernorm.weight", ".k_layernorm.weight"})
        plan.plain(module + norm, {n.index_width}, -0.2f, 0.2f);
}

/// The constants of its hash are left out: they are computed, as the number of its rows is here.
void add_table(Plan& plan, const std::string& module, const Numbers& n) {
    const std::uint64_t width = n.qwen.width, wide = width * n.streams;
    const NgramNumbers ngrams{.vocabulary = n.qwen.vocabulary,
                              .order = order,
                              .heads_of_order = heads_of_order,
                              .least_size = n.table_base,
                              .rows_multiple = rows_multiple};
    const auto sizes = NgramHash::compute(ngrams).sizes;
    const std::uint64_t rows = std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
    const std::uint64_t padded = (rows + rows_multiple - 1) / rows_multiple * rows_multiple;
    for (std::uint32_t part = 0; part < n.parts; ++part)
        plan.matrix(module + ".ple_embedding.ngram_embedding.shard_" + std::to_string(part),
                    {padded / n.parts, n.embedding / ngrams.heads()});
    plan.matrix(module + ".key_proj", {wide, n.embedding});
    plan.matrix(module + ".value_proj", {width, n.embedding});
    for (const char* norm : {".norm_key.weight", ".norm_query.weight", ".norm_conv.weight"})
        plan.plain(module + norm, {wide}, -0.2f, 0.2f);
    plan.plain(module + ".conv1d.weight", {wide, 1, 4}, -0.5f, 0.5f);
}

}  // namespace

std::optional<Plan> plan_qwen4_exp(std::string_view shape, std::uint32_t layers, ExpertLayout experts) {
    for (Numbers n : all) {
        QwenNumbers& q = n.qwen;
        if (q.name != shape) continue;
        if (layers > 0) q.layers = std::clamp(layers, layer_with_table + 1, q.layers);
        Plan plan{.config = config_of(n), .tensors = {}};
        plan.matrix("model.embed_tokens", {q.vocabulary, q.width}, PlannedTensor::Role::vocabulary);
        for (std::uint32_t i = 0; i < q.layers; ++i) {
            const std::string block = "model.layers." + std::to_string(i);
            if (i == layer_with_table) add_table(plan, block + ".ple", n);
            add_streams(plan, block + ".attn_hyper_connection", n, true);
            if ((i + 1) % 4 == 0) {
                add_attention(plan, block + ".self_attn", q);
                add_indexer(plan, block + ".self_attn.indexer", n);
            } else {
                add_delta_net(plan, block + ".linear_attn", q);
            }
            add_streams(plan, block + ".mlp_hyper_connection", n, true);
            add_feed_forward(plan, block + ".mlp", q, experts);
        }
        add_streams(plan, "model.hyper_connection_mixer", n, false);
        plan.matrix("lm_head", {q.vocabulary, q.width}, PlannedTensor::Role::vocabulary);
        return plan;
    }
    return std::nullopt;
}

}  // namespace kapitsa::random_checkpoint

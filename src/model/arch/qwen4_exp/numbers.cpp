#include "model/arch/qwen4_exp/numbers.h"

#include <algorithm>
#include <string_view>

#include "kernels/ngrams.h"
#include "model/config_rules.h"

namespace kapitsa::qwen4 {
namespace {

// What no published file says, and where a reader has to take something (docs/models.md lists it).
constexpr std::uint32_t default_seed = 1234;  // of the hash's constants, where a file does not hold them

constexpr WholeRange widths{1, 1u << 20}, counts{1, 4096}, head_widths{1, 1024};

// Files say full_attention for what is sparse; the reference renames it as it loads them.
constexpr std::string_view attention[] = {"full_attention", "qwen_sparse_attention"};

/// Norms are stored as w of (1 + w) by all hands, MLX's too, but in GGUF files.
Result<float> norm_shift(const ConfigReader& text) {
    return TRY(text.flag_or("norms_hold_one", false)) ? 0.0f : 1.0f;
}

Status refuse(const ConfigReader& where, std::string_view key, const std::string& why) {
    return fail(Fault::unsupported, where.field(key) + " " + why);
}

/// Fields that are read, or say nothing of the arithmetic, though their names sound like it.
constexpr std::string_view known[] = {"attention_bias",
                                      "attn_output_gate",
                                      "decoder_sparse_step",
                                      "hc_count",
                                      "hc_lowrank",
                                      "heads_per_ngram",
                                      "hidden_act",
                                      "indexer_n_heads",
                                      "indexer_kv_heads",
                                      "indexer_head_dim",
                                      "indexer_budget",
                                      "indexer_compress_ratio",
                                      "linear_conv_kernel_dim",
                                      "linear_key_head_dim",
                                      "linear_num_key_heads",
                                      "linear_num_value_heads",
                                      "linear_value_head_dim",
                                      "linear_value_heads_tiled",
                                      "make_ngram_vocab_size_divisible_by",
                                      "mlp_only_layers",
                                      "moe_intermediate_size",
                                      "ngram_size",
                                      "ngram_vocab_size_base",
                                      "norm_topk_prob",
                                      "norms_hold_one",
                                      "num_experts",
                                      "num_experts_per_tok",
                                      "output_gate_type",
                                      "ple_conv_kernel_size",
                                      "ple_embed_dim",
                                      "ple_layer_ids",
                                      "rms_norm_eps",
                                      "rope_parameters",
                                      "rope_scaling",
                                      "rope_theta",
                                      "split_ngram_parts"};
constexpr std::string_view telling[] = {"indexer", "hc_",     "ple_",   "ngram",  "linear_",
                                        "moe_",    "experts", "kernel", "budget", "dilation"};
constexpr std::string_view known_of_rope[] = {"mrope_interleaved", "mrope_section", "partial_rotary_factor",
                                              "rope_theta", "rope_type"};
constexpr std::string_view telling_of_rope[] = {"factor", "beta", "original"};

/// Settings that would change the arithmetic, and have one value in all releases.
Status refuse_variants(const ConfigReader& text, const ConfigReader& rope) {
    TRY(expect_text(text, "hidden_act", "silu"));
    TRY(expect_flag(text, "attention_bias", false));
    TRY(expect_flag(text, "attn_output_gate", true));
    TRY(expect_flag(text, "norm_topk_prob", true));
    TRY(expect_number(text, "indexer_kv_heads", 1));
    TRY(expect_number(text, "decoder_sparse_step", 1));
    if (text.has("mlp_only_layers") && !TRY(text.numbers("mlp_only_layers", {0, 1024})).empty())
        return refuse(text, "mlp_only_layers", "names dense layers; this family is known without any");
    TRY(expect_flag(rope, "mrope_interleaved", true));
    TRY(expect_default_rope(rope));
    if (text.has("rope_scaling") && text.has("rope_parameters"))
        return refuse(text, "rope_scaling", "stands beside rope_parameters; remove one of them");
    if (&rope.json() != &text.json()) TRY(refuse_unknown_arithmetic(rope, known_of_rope, telling_of_rope));
    return refuse_unknown_arithmetic(text, known, telling);
}

Result<SparseAttention::Numbers> read_attention(const ConfigReader& text, const ConfigReader& rope) {
    SparseAttention::Numbers n;
    Attention::Numbers& a = n.attention;
    a.width = TRY(text.number("hidden_size", widths));
    a.heads = TRY(text.number("num_attention_heads", counts));
    a.kv_heads = TRY(text.number("num_key_value_heads", counts));
    a.head_width = TRY(text.number_or("head_dim", 256, head_widths));
    const double part = TRY(
        (rope.has("partial_rotary_factor") ? rope : text).real_or("partial_rotary_factor", 0.25, {0.0, 1.0}));
    a.rotary = std::uint32_t(a.head_width * part);
    a.norm_shift = TRY(norm_shift(text));
    n.index_heads = TRY(text.number_or("indexer_n_heads", 4, counts));
    n.index_width = TRY(text.number_or("indexer_head_dim", 128, head_widths));
    n.ratio = TRY(text.number_or("indexer_compress_ratio", 4, {1, 256}));
    const std::uint32_t tokens = TRY(text.number_or("indexer_budget", 2048, {1, 1u << 16}));
    n.budget = tokens / n.ratio;
    if (a.heads % a.kv_heads != 0 || a.heads / a.kv_heads > 64)
        TRY(refuse(text, "num_attention_heads",
                   "must be a multiple of num_key_value_heads, and at most 64 to each"));
    if (a.rotary % 2 != 0 || a.rotary == 0 || a.rotary > n.index_width)
        TRY(refuse(text, "head_dim",
                   "times partial_rotary_factor is " + std::to_string(a.rotary) +
                       "; it must be even, and from 2 to indexer_head_dim"));
    if (n.budget == 0 || tokens % n.ratio != 0)
        TRY(refuse(text, "indexer_budget", "must be a multiple of indexer_compress_ratio"));
    return n;
}

Result<DeltaNet::Numbers> read_delta_net(const ConfigReader& text) {
    constexpr WholeRange heads{1, 4096};
    DeltaNet::Numbers n;
    n.width = TRY(text.number("hidden_size", widths));
    n.shape = {.key_heads = TRY(text.number("linear_num_key_heads", heads)),
               .value_heads = TRY(text.number("linear_num_value_heads", heads)),
               .key_width = TRY(text.number_or("linear_key_head_dim", 128, head_widths)),
               .value_width = TRY(text.number_or("linear_value_head_dim", 128, head_widths)),
               .taps = TRY(text.number_or("linear_conv_kernel_dim", 4, {2, 8}))};
    n.tiled = TRY(text.flag_or("linear_value_heads_tiled", false));
    if (n.shape.value_heads % n.shape.key_heads != 0)
        TRY(refuse(text, "linear_num_value_heads", "is no multiple of linear_num_key_heads"));
    // Where it is missing one reader takes silu and another a sigmoid: nothing is taken here.
    const std::string gate = TRY(text.text("output_gate_type"));
    n.sigmoid_gate = gate == "sigmoid";
    if (!n.sigmoid_gate && gate != "silu")
        TRY(refuse(text, "output_gate_type", "is \"" + gate + "\"; it may be sigmoid or silu"));
    return n;
}

Result<Experts::Numbers> read_experts(const ConfigReader& text) {
    Experts::Numbers n;
    n.width = TRY(text.number("hidden_size", widths));
    n.inner = TRY(text.number("moe_intermediate_size", widths));
    n.router.experts = TRY(text.number("num_experts", counts));
    n.router.picks = TRY(text.number("num_experts_per_tok", {1, 256}));
    n.shared_inner = TRY(text.number("shared_expert_intermediate_size", widths));
    n.shared_gated = true;
    if (n.router.picks > n.router.experts)
        return fail(Fault::corrupt_file, text.field("num_experts_per_tok") + " is more than num_experts");
    return n;
}

/// The token before which no n-gram reaches: the first end of text.
Result<std::uint32_t> read_reset(const ConfigReader& file, const ConfigReader& text,
                                 std::uint32_t vocabulary) {
    const ConfigReader& where = text.has("eos_token_id") ? text : file;
    const auto ends = TRY(where.number_or_numbers("eos_token_id", {0, vocabulary - 1}));
    if (!ends.empty()) return ends.front();
    return fail(Fault::corrupt_file,
                where.field("eos_token_id") + " is missing; the embeddings of n-grams begin anew behind it");
}

Status read_ngrams(const ConfigReader& file, const ConfigReader& text, Numbers& n) {
    auto layers = TRY(text.has("ple_layer_ids") ? text.numbers("ple_layer_ids", {1, n.layers})
                                                : Result<std::vector<std::uint32_t>>{});
    std::ranges::sort(layers);
    if (std::ranges::adjacent_find(layers) != layers.end() || layers.size() > 16)
        return refuse(text, "ple_layer_ids", "must name each layer once, and 16 at most");
    for (const std::uint32_t counted_from_1 : layers) {
        if (n.attends[counted_from_1 - 1])
            return refuse(text, "ple_layer_ids",
                          "names layer " + std::to_string(counted_from_1) +
                              ", which attends; the embeddings "
                              "of n-grams are known in layers of linear attention alone");
        n.ngram_layers.push_back(counted_from_1 - 1);
    }
    if (layers.empty()) return Done{};
    NgramLayer::Numbers& own = n.ngrams;
    own.ngrams = {
        .vocabulary = n.vocabulary,
        .order = TRY(text.number_or("ngram_size", 3, {2, 8})),
        .heads_of_order = TRY(text.number_or("heads_per_ngram", 8, {1, 64})),
        .least_size = TRY(text.number("ngram_vocab_size_base", {2, 1u << 31})),
        .rows_multiple = TRY(text.number_or("make_ngram_vocab_size_divisible_by", 128, {1, 1u << 31})),
        .seed = TRY(text.number_or("seed", default_seed, {0, ~std::uint32_t{0}})),
        .module = 0};
    own.parts = TRY(text.number_or("split_ngram_parts", 512, counts));
    own.embedding = TRY(text.number_or("ple_embed_dim", n.width(), widths));
    own.width = n.width();
    own.streams = n.streams.streams;
    own.taps = TRY(text.number_or("ple_conv_kernel_size", 4, {2, dilated_conv_most_taps}));
    own.reset = std::int32_t(TRY(read_reset(file, text, n.vocabulary)));
    own.epsilon = n.epsilon;
    own.norm_shift = TRY(norm_shift(text));
    if (own.embedding % own.ngrams.heads() != 0)
        return refuse(text, "ple_embed_dim", "is no multiple of (ngram_size - 1) times heads_per_ngram");
    return Done{};
}

/// Whether the head that drafts is the one that is known: one layer like those that attend.
Result<bool> read_drafts(const ConfigReader& text, double rope_theta) {
    if (TRY(text.number_or("mtp_num_hidden_layers", 0, {0, 1024})) != 1 ||
        TRY(text.flag_or("mtp_use_dedicated_embeddings", false)))
        return false;
    if (!text.has("mtp")) return true;
    const ConfigReader own = TRY(text.child("mtp"));
    const auto types = TRY(own.has("layer_types") ? own.texts("layer_types")
                                                  : Result<std::vector<std::string>>{{"full_attention"}});
    return types == std::vector<std::string>{"full_attention"} &&
           TRY(own.number_or("num_hidden_layers", 1, {0, 1024})) == 1 &&
           !own.has("mtp_use_hidden_state_from_layer") &&
           TRY(own.real_or("rope_theta", rope_theta)) == rope_theta;
}

}  // namespace

Result<Numbers> read_numbers(const Json& config) {
    const ConfigReader file(config, "config.json");
    const ConfigReader text = TRY(file.child_or_self("text_config"));
    const ConfigReader rope = text.has("rope_parameters") ? TRY(text.child("rope_parameters"))
                              : text.has("rope_scaling")  ? TRY(text.child("rope_scaling"))
                                                          : text;
    TRY(refuse_variants(text, rope));
    Numbers n;
    n.vocabulary = TRY(text.number_or("vocab_size", 248320, {1, (1u << 24) - 1}));
    n.layers = TRY(text.number("num_hidden_layers", {1, 1024}));
    n.context = TRY(text.number_or("max_position_embeddings", 32768, token_counts));
    n.epsilon = float(TRY(text.real_or("rms_norm_eps", 1e-6, {0.0, 1.0})));
    n.tied = TRY((text.has("tie_word_embeddings") ? text : file).flag_or("tie_word_embeddings", false));
    n.streams = {.width = TRY(text.number("hidden_size", widths)),
                 .streams = TRY(text.number("hc_count", {2, 64})),
                 .rank = TRY(text.number("hc_lowrank", widths)),
                 .epsilon = n.epsilon,
                 .norm_shift = TRY(norm_shift(text))};
    if (n.streams.width > widths.most / n.streams.streams)
        TRY(refuse(text, "hc_count", "times hidden_size is more than " + std::to_string(widths.most)));
    n.attends = TRY(attending_layers(text, n.layers, attention));
    n.attention = TRY(read_attention(text, rope));
    n.attention.attention.epsilon = n.epsilon;
    n.delta_net = TRY(read_delta_net(text));
    n.delta_net.epsilon = n.epsilon;
    n.experts = TRY(read_experts(text));
    n.rope_theta = TRY((rope.has("rope_theta") ? rope : text).real("rope_theta", {1.0, 1e12}));
    TRY(read_ngrams(file, text, n));
    n.drafts = TRY(read_drafts(text, n.rope_theta));
    return n;
}

}  // namespace kapitsa::qwen4

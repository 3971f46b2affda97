// How GGUF files say Qwen3.8-Flash-Next (qwen4exp). Norms are stored as 1 + w; the constants of the hash
// stand in the metadata, the whole table of n-grams is one tensor outside of the blocks. qwen/words.h has
// what the family shares with its relatives.
#include <nlohmann/json.hpp>

#include "model/arch/gguf/qwen/words.h"

namespace kapitsa::gguf {
namespace {

constexpr GgufName outside[] = {
    {"token_embd", "model.embed_tokens"},
    {"output", "lm_head"},
    {"output_hc_norm", "model.hyper_connection_mixer.hc_norm", GgufShape::flat},
    {"output_hc_down", "model.hyper_connection_mixer.input_mix_weight_down"},
    {"output_hc_up", "model.hyper_connection_mixer.input_mix_weight_up"},
};

// Norms over all streams are one row of them, or a row a stream.
constexpr GgufName of_every_block[] = {
    {"hc_attn_norm", "attn_hyper_connection.hc_norm", GgufShape::flat},
    {"hc_attn_down", "attn_hyper_connection.input_mix_weight_down"},
    {"hc_attn_up", "attn_hyper_connection.input_mix_weight_up"},
    {"hc_attn_inject", "attn_hyper_connection.block_inject_weight"},
    {"hc_ffn_norm", "mlp_hyper_connection.hc_norm", GgufShape::flat},
    {"hc_ffn_down", "mlp_hyper_connection.input_mix_weight_down"},
    {"hc_ffn_up", "mlp_hyper_connection.input_mix_weight_up"},
    {"hc_ffn_inject", "mlp_hyper_connection.block_inject_weight"},
    {"indexer.q_proj", "self_attn.indexer.index_q_proj"},
    {"indexer.k_proj", "self_attn.indexer.index_k_proj"},
    {"indexer.q_norm", "self_attn.indexer.q_layernorm"},
    {"indexer.k_norm", "self_attn.indexer.k_layernorm"},
    {"ple_key", "ple.key_proj"},
    {"ple_value", "ple.value_proj"},
    {"ple_norm_key", "ple.norm_key", GgufShape::flat},
    {"ple_norm_query", "ple.norm_query", GgufShape::flat},
    {"ple_norm_conv", "ple.norm_conv", GgufShape::flat},
    {"ple_conv1d", "ple.conv1d", GgufShape::channels_in_front},
};

constexpr GgufName of_next_tokens[] = {
    {"nextn.eh_proj", "fc"},  // both of the head's matrices side by side
    {"nextn.enorm", "pre_fc_norm_embedding"},
    {"nextn.hnorm", "pre_fc_norm_hidden", GgufShape::flat},
    {"nextn.hc_head_norm", "hyper_connection_mixer.hc_norm", GgufShape::flat},
    {"nextn.hc_head_down", "hyper_connection_mixer.input_mix_weight_down"},
    {"nextn.hc_head_up", "hyper_connection_mixer.input_mix_weight_up"},
};

/// What no published file was read for: docs/models.md lists it.
namespace unconfirmed {

// The head that drafts, as other hands have named its tensors.
constexpr GgufName of_next_tokens[] = {
    {"nextn.fc_embd", "fc_embedding"},
    {"nextn.fc_hidden", "fc_hidden"},
    {"nextn.hc_norm", "hyper_connection_mixer.hc_norm", GgufShape::flat},
    {"nextn.hc_down", "hyper_connection_mixer.input_mix_weight_down"},
    {"nextn.hc_up", "hyper_connection_mixer.input_mix_weight_up"},
};

constexpr const char* gate_of_delta_nets = "sigmoid";  // no key says it

}  // namespace unconfirmed

constexpr WholeRange counts{1, 1u << 20};

/// Tokens of a block of sparse attention, by block of the model: 0 where there is none.
Result<std::uint32_t> read_ratio(const GgufTranslation& file, const qwen::Layers& layers) {
    constexpr const char* name = "attention.compress_ratios";
    const std::string field = file.settings().field(file.key(name));
    const auto ratios = TRY(file.by_block(name, layers.trunk + layers.next_tokens, {0, 256}));
    if (ratios.empty()) return fail(Fault::corrupt_file, field + " is missing");
    for (std::uint32_t i = 0; i < layers.trunk; ++i)
        if (layers.attends[i] && ratios[i] == 0)
            return fail(Fault::unsupported, field + "[" + std::to_string(i) +
                                                "] is 0: a layer with full attention; attention is known "
                                                "to be sparse in this family");
    const std::uint32_t ratio = TRY(file.the_number(name, ratios));
    if (ratio == 0) return fail(Fault::unsupported, field + " is 0 everywhere: no layer is sparse");
    return ratio;
}

Status read_streams(const GgufTranslation& file, const qwen::Layers& layers, Json& config) {
    const ConfigReader& settings = file.settings();
    config["hc_count"] = TRY(settings.number(file.key("hyper_connection.count"), counts));
    config["hc_lowrank"] = TRY(settings.number(file.key("hyper_connection.low_rank"), counts));
    config["indexer_n_heads"] = TRY(settings.number(file.key("attention.indexer.head_count"), counts));
    config["indexer_head_dim"] = TRY(settings.number(file.key("attention.indexer.key_length"), counts));
    config["indexer_budget"] = TRY(settings.number(file.key("attention.indexer.top_k"), counts));
    config["indexer_compress_ratio"] = TRY(read_ratio(file, layers));
    config["output_gate_type"] = unconfirmed::gate_of_delta_nets;
    config["norms_hold_one"] = true;
    return Done{};
}

/// The table of n-grams of a layer, if there is one. Layers are counted from 0 here, from 1 in config.json.
Status read_ngrams(GgufTranslation& file, const qwen::Layers& layers, Json& config) {
    const ConfigReader& settings = file.settings();
    const auto ngram_layers = TRY(settings.number_or_numbers(file.key("ple.layers"), {0, layers.trunk - 1}));
    if (ngram_layers.empty()) return Done{};
    if (ngram_layers.size() > 1)
        return fail(Fault::unsupported, settings.field(file.key("ple.layers")) +
                                            " names several layers; files are known that hold the table of "
                                            "one");
    const auto order = TRY(settings.number(file.key("ple.ngram_size"), {2, 8})),
               heads = TRY(settings.number(file.key("ple.heads_per_ngram"), {1, 64}));
    const auto sizes = TRY(settings.numbers(file.key("ple.head_vocab_sizes"), {2, 1u << 31}));
    const auto table = TRY(file.shape("per_layer_token_embd.weight"));
    if (sizes.empty() || table.size() != 2)
        return fail(Fault::corrupt_file, "per_layer_token_embd.weight is no matrix, or has no parts");
    config["ple_layer_ids"] = Json::array({ngram_layers[0] + 1});
    config["ngram_size"] = order;
    config["heads_per_ngram"] = heads;
    config["ple_conv_kernel_size"] = TRY(settings.number(file.key("ple.conv_kernel"), counts));
    config["ple_embed_dim"] =
        (order - 1) * heads *
        TRY(settings.number(file.key("embedding_length_per_layer_input"), {1, 1u << 16}));
    config["eos_token_id"] = TRY(settings.number(file.key("ple.eos_token_id"), {0, 1u << 24}));
    // The constants are all there; of how they are made a reader wants to know all the same.
    config["ngram_vocab_size_base"] = sizes[0];
    config["make_ngram_vocab_size_divisible_by"] = table[0];
    config["split_ngram_parts"] = 1;
    const std::string own = "model.layers." + std::to_string(ngram_layers[0]) + ".ple.ple_embedding.";
    TRY(file.add_numbers("ple.layer_multipliers", own + "layer_multipliers"));
    TRY(file.add_numbers("ple.head_vocab_sizes", own + "ngram_heads_vocab_sizes"));
    TRY(file.add_numbers("ple.head_offsets", own + "ngram_heads_offsets"));
    return file.rename_all("per_layer_token_embd.", own + "ngram_embedding.shard_0.");
}

Status rename(GgufTranslation& file, const qwen::Layers& layers, const Json& config) {
    TRY(file.rename(outside, ""));
    TRY(qwen::rename_vision(file));
    const auto rename_layer = [&](std::uint32_t block, const std::string& prefix, bool attends) -> Status {
        TRY(file.rename_block(block, of_every_block, prefix));
        return qwen::rename_layer(file, block, prefix, attends, config);
    };
    for (std::uint32_t i = 0; i < layers.trunk; ++i)
        TRY(rename_layer(i, "model.layers." + std::to_string(i) + ".", layers.attends[i]));
    for (std::uint32_t i = 0; i < layers.next_tokens; ++i) {
        TRY(file.rename_block(layers.trunk + i, of_next_tokens, "mtp."));
        TRY(file.rename_block(layers.trunk + i, unconfirmed::of_next_tokens, "mtp."));
        TRY(rename_layer(layers.trunk + i, "mtp.layers." + std::to_string(i) + ".", true));
    }
    return Done{};
}

Result<Json> translate(GgufTranslation& file) {
    const qwen::Layers layers = TRY(qwen::read_layers(file));
    Json config = TRY(qwen::read_model(file, layers));
    config["model_type"] = "qwen4_exp_text";
    TRY(qwen::read_experts(file, layers, config));
    TRY(read_streams(file, layers, config));
    TRY(read_ngrams(file, layers, config));
    TRY(rename(file, layers, config));
    return config;
}

constexpr std::string_view architectures[] = {"qwen4exp"};

}  // namespace

extern const GgufDialect qwen4_exp{.architectures = architectures, .translate = translate};

}  // namespace kapitsa::gguf

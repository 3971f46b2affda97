#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "support/gguf_conversion.h"

namespace kapitsa {
namespace {

constexpr Row own_rows[] = {
    {"hyper_connection_mixer.hc_norm.weight", "output_hc_norm.weight", Change::add_one},
    {"hyper_connection_mixer.input_mix_weight_down.weight", "output_hc_down.weight"},
    {"hyper_connection_mixer.input_mix_weight_up.weight", "output_hc_up.weight"},
    {"attn_hyper_connection.hc_norm.weight", "hc_attn_norm.weight", Change::add_one},
    {"attn_hyper_connection.input_mix_weight_down.weight", "hc_attn_down.weight"},
    {"attn_hyper_connection.input_mix_weight_up.weight", "hc_attn_up.weight"},
    {"attn_hyper_connection.block_inject_weight.weight", "hc_attn_inject.weight"},
    {"mlp_hyper_connection.hc_norm.weight", "hc_ffn_norm.weight", Change::add_one},
    {"mlp_hyper_connection.input_mix_weight_down.weight", "hc_ffn_down.weight"},
    {"mlp_hyper_connection.input_mix_weight_up.weight", "hc_ffn_up.weight"},
    {"mlp_hyper_connection.block_inject_weight.weight", "hc_ffn_inject.weight"},
    {"indexer.q", "indexer.q_proj.weight"},  // cut before
    {"indexer.k", "indexer.k_proj.weight"},
    {"self_attn.indexer.q_layernorm.weight", "indexer.q_norm.weight", Change::add_one},
    {"self_attn.indexer.k_layernorm.weight", "indexer.k_norm.weight", Change::add_one},
    {"mlp.experts.gate_up_proj", "ffn_gate_up_exps.weight"},
    {"ple.key_proj.weight", "ple_key.weight"},
    {"ple.value_proj.weight", "ple_value.weight"},
    {"ple.norm_key.weight", "ple_norm_key.weight", Change::add_one},
    {"ple.norm_query.weight", "ple_norm_query.weight", Change::add_one},
    {"ple.norm_conv.weight", "ple_norm_conv.weight", Change::add_one},
    {"ple.conv1d.weight", "ple_conv1d.weight", Change::taps},
    {"table", "per_layer_token_embd.weight"},  // joined before
    {"mtp.fc", "nextn.eh_proj.weight"},        // likewise
    {"mtp.pre_fc_norm_embedding.weight", "nextn.enorm.weight", Change::add_one},
    {"mtp.pre_fc_norm_hidden.weight", "nextn.hnorm.weight", Change::add_one},
    {"mtp.hyper_connection_mixer.hc_norm.weight", "nextn.hc_head_norm.weight", Change::add_one},
    {"mtp.hyper_connection_mixer.input_mix_weight_down.weight", "nextn.hc_head_down.weight"},
    {"mtp.hyper_connection_mixer.input_mix_weight_up.weight", "nextn.hc_head_up.weight"},
};
constexpr auto rows = joined(rows_of_qwen, own_rows);

constexpr const char* name = "qwen4exp";

/// The integers of the hash, as the folder holds them.
void hash_settings(GgufWriter& writer, const std::string& folder) {
    const Golden first(folder + "/model-00001-of-00002.safetensors"),
        second(folder + "/model-00002-of-00002.safetensors");
    const std::string module = "model.language_model.layers.1.ple.ple_embedding.";
    constexpr struct {
        const char *ours, *theirs;
    } lists[] = {{"layer_multipliers", "layer_multipliers"},
                 {"ngram_heads_vocab_sizes", "head_vocab_sizes"},
                 {"ngram_heads_offsets", "head_offsets"}};
    for (const auto& list : lists) {
        const Golden& golden = first.has(module + list.ours) ? first : second;
        writer.long_numbers(std::string(name) + ".ple." + list.theirs,
                            golden.ints(module + list.ours).values);
    }
}

void settings(GgufWriter& writer, const Json& text) {
    const auto set = [&](const char* theirs, const char* ours) {
        writer.number(std::string(name) + "." + theirs, number(text, ours));
    };
    qwen_settings(writer, text, name);
    set("hyper_connection.count", "hc_count");
    set("hyper_connection.low_rank", "hc_lowrank");
    set("attention.indexer.head_count", "indexer_n_heads");
    set("attention.indexer.key_length", "indexer_head_dim");
    set("attention.indexer.top_k", "indexer_budget");
    set("ple.ngram_size", "ngram_size");
    set("ple.heads_per_ngram", "heads_per_ngram");
    set("ple.conv_kernel", "ple_conv_kernel_size");
    set("ple.eos_token_id", "eos_token_id");
    std::vector<std::int32_t> ratios;
    for (const Json& type : text["layer_types"])
        ratios.push_back(type == "full_attention" ? text["indexer_compress_ratio"].get<std::int32_t>() : 0);
    ratios.push_back(0);  // the block that drafts
    writer.numbers(std::string(name) + ".attention.compress_ratios", ratios);
    writer.numbers(std::string(name) + ".ple.layers", {1});
    writer.number(std::string(name) + ".embedding_length_per_layer_input", 8);
}

/// Rows [first, first + count).
Array<float> rows_of(const Array<float>& all, std::size_t first, std::size_t count) {
    const auto from = all.values.begin() + std::ptrdiff_t(first * all.shape[1]);
    return {{from, from + std::ptrdiff_t(count * all.shape[1])}, {count, all.shape[1]}};
}

Array<float> side_by_side(const Array<float>& a, const Array<float>& b) {
    CHECK(a.shape == b.shape);
    Array<float> both{{}, {a.shape[0], 2 * a.shape[1]}};
    for (std::size_t row = 0; row < a.shape[0]; ++row)
        for (const Array<float>* half : {&a, &b}) {
            const Array<float> one = rows_of(*half, row, 1);
            both.values.insert(both.values.end(), one.values.begin(), one.values.end());
        }
    return both;
}

/// Takes the shards of the table out of the tensors and joins them.
Array<float> take_table(Tensors& tensors) {
    std::map<std::size_t, Array<float>> shards;
    std::erase_if(tensors, [&](auto& tensor) {
        const std::size_t at = tensor.first.find(".shard_");
        if (at != tensor.first.npos) shards[std::stoul(tensor.first.substr(at + 7))] = tensor.second;
        return at != tensor.first.npos;
    });
    CHECK(!shards.empty());
    Array<float> table{{}, {0, shards.begin()->second.shape[1]}};
    for (const auto& [number, shard] : shards) {
        table.shape[0] += shard.shape[0];
        table.values.insert(table.values.end(), shard.values.begin(), shard.values.end());
    }
    return table;
}

void add_layers_tensor(Converter& converter, const Json& text, const std::string& block,
                       const std::string& local, Array<float> tensor) {
    const bool in_trunk = block != "blk." + std::to_string(number(text, "num_hidden_layers")) + ".";
    if (local == "self_attn.indexer.index_qk_proj.weight") {
        const std::size_t width = number(text, "indexer_head_dim"),
                          queries = width * number(text, "indexer_n_heads");
        converter.add(block, "indexer.q", rows_of(tensor, 0, queries));
        converter.add(block, "indexer.k", rows_of(tensor, queries, width));
    } else if (local == "mlp.experts.gate_up_proj" && in_trunk) {  // of the head that drafts they stay one
        converter.add(block, "mlp.experts.gate_proj", half_of(tensor, 0));
        converter.add(block, "mlp.experts.up_proj", half_of(tensor, 1));
    } else {
        converter.add(block, local, std::move(tensor));
    }
}

void convert(Converter& converter, const Json& config, Tensors tensors, const std::string& folder) {
    const Json& text = text_of(config);
    converter.writer().text("general.architecture", name);
    settings(converter.writer(), text);
    hash_settings(converter.writer(), folder);
    converter.add("", "table", take_table(tensors));
    const HeadOrder order(config);
    const std::uint32_t trunk = number(text, "num_hidden_layers");
    const std::string drafts = "blk." + std::to_string(trunk) + ".";
    Array<float> of_token;
    for (auto& [full, tensor] : tensors) {  // by name: fc_embedding is before fc_hidden
        order.tile(full, tensor);
        if (full == "mtp.fc_embedding.weight") {
            of_token = std::move(tensor);
        } else if (full == "mtp.fc_hidden.weight") {
            converter.add(drafts, "mtp.fc", side_by_side(of_token, tensor));
        } else if (full.starts_with("mtp.layers.")) {
            const auto [block, local] = block_of(without(full, {"mtp."}), trunk);
            add_layers_tensor(converter, text, block, local, std::move(tensor));
        } else if (full.starts_with("mtp.")) {
            converter.add(drafts, full, std::move(tensor));
        } else {
            const auto [block, local] = block_of(without(full, {"model.language_model."}), 0);
            add_layers_tensor(converter, text, block, local, std::move(tensor));
        }
    }
}

}  // namespace

const Conversion qwen4_exp_conversion{rows, convert};

}  // namespace kapitsa

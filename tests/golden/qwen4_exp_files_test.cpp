// The files of Qwen3.8-Flash-Next: the layouts of several hands are one model, a table of n-grams may be
// stored as codes, and what is unknown, malformed or left over is refused with its name.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "golden/forms.h"
#include "golden/loading.h"
#include "golden/model_case.h"
#include "kernels/blocks/scalars.h"
#include "model/layers/ngram_hash.h"

namespace kapitsa {
namespace {

using Tensors = std::vector<NamedTensor>;
constexpr const char* folder = "tests/data/goldens/qwen4_exp";
const std::string ple = "model.language_model.layers.1.ple.", table = ple + "ple_embedding.";

struct Source {
    Tensors tensors;
    Json config;
};
Source source() {
    auto checkpoint = open_checkpoint(KAPITSA_SOURCE_DIR "/" + std::string(folder));
    CHECK(checkpoint.has_value());
    return {tensors_of(*checkpoint), *checkpoint->config};
}

NamedTensor& named(Tensors& tensors, const std::string& name) {
    const auto found = std::ranges::find(tensors, name, &NamedTensor::name);
    CHECK(found != tensors.end());
    return *found;
}

void set_whole(Tensors& tensors, const std::string& name, const std::vector<std::int64_t>& values) {
    NamedTensor& tensor = named(tensors, name);
    tensor.tensor.shape = {values.size()};
    tensor.whole.resize(values.size() * sizeof(std::int64_t));
    std::memcpy(tensor.whole.data(), values.data(), tensor.whole.size());
}

/// As plain floats in `path`.
std::string write(const std::string& path, const Source& it) {
    write_forms(path, it.tensors, it.config, [](const std::string&) { return StoredForm{}; });
    return path + "/plain";
}

Logits logits_of(const std::string& path, const RunnerOptions& options = {}) {
    ModelCase model(path, options);
    auto sequence = model.begin(0);
    const auto prompt = read_golden_json("qwen4_exp/golden.json")["prompts"]["65"]["input_ids"];
    Logits logits = model.chain(sequence, tokens_of(prompt));
    for (const Token token : {3, 304, 14, 15}) {
        const Logits more = model.chain(sequence, {token});
        logits.insert(logits.end(), more.begin(), more.end());
    }
    return logits;
}

void replace(std::string& name, const std::string& from, const std::string& to) {
    if (const auto at = name.find(from); at != std::string::npos) name.replace(at, from.size(), to);
}

/// The header made longer by spaces, as writers do it, so that the tensors behind it can be used where they
/// are.
void align_tensors(const std::string& file) {
    std::ostringstream read;
    read << std::ifstream(file, std::ios::binary).rdbuf();
    std::string bytes = read.str();
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), 8);
    const std::uint64_t padding = (8 - length % 8) % 8;
    bytes.insert(8 + length, padding, ' ');
    length += padding;
    std::memcpy(bytes.data(), &length, 8);
    std::ofstream(file, std::ios::binary) << bytes;
}

/// The same with few of the table's rows and experts in memory. The file is changed.
Logits logits_with_little(const std::string& path) {
    align_tensors(path + "/model.safetensors");
    const std::uint64_t bytes = least_expert_bytes(path);
    EXPECT_GT(ModelCase(path, {.backend = "cpu", .expert_bytes = bytes}).runner().info().table_bytes, 0u);
    return logits_of(path, {.backend = "cpu", .expert_bytes = bytes});
}

class FlashNextFiles : public testing::Test {
protected:
    /// The golden after `change(source)`. @return its folder
    template <typename Change>
    std::string changed(Change change) {
        Source it = source();
        change(it);
        return write(room_.path() + "/" + std::to_string(written_++), it);
    }
    template <typename Change>
    std::string why_refused(Change change) {
        return kapitsa::why_refused(changed(change));
    }

    const TemporaryFolder room_;
    int written_ = 0;
};

TEST_F(FlashNextFiles, LayoutsOfOtherHandsAreTheSameModel) {
    const Logits expected = logits_of(folder);
    const std::string of_text_alone = changed([](Source& it) {
        it.config = it.config["text_config"];
        for (NamedTensor& one : it.tensors) replace(one.name, "model.language_model.", "model.");
    });
    EXPECT_EQ(logits_of(of_text_alone), expected);
    for (const std::string prefix : {"model.", "language_model.model."}) {
        const std::string of_mlx = changed([&](Source& it) {
            std::erase_if(it.tensors, [](const NamedTensor& one) {
                return one.name.starts_with("mtp.") || one.name.starts_with("model.visual.");
            });
            Tensors split;
            for (NamedTensor one : it.tensors) {
                replace(one.name, "model.language_model.", prefix);
                if (one.name == "lm_head.weight" && prefix != "model.")
                    one.name = "language_model.lm_head.weight";
                if (prefix != "model.")
                    replace(one.name, "ngram_embedding.shard_", "ngram_embedding.shards.");
                if (one.name.ends_with("conv1d.weight")) std::swap(one.tensor.shape[1], one.tensor.shape[2]);
                if (one.name.ends_with("experts.gate_up_proj")) {
                    auto& shape = one.tensor.shape;  // [experts, gate and up, columns]
                    shape[1] /= 2;
                    NamedTensor gate = one, up = one;
                    gate.tensor.values.clear();
                    up.tensor.values.clear();
                    const auto half = std::ptrdiff_t(shape[1] * shape[2]);
                    for (auto at = one.tensor.values.begin(); at != one.tensor.values.end(); at += 2 * half) {
                        gate.tensor.values.insert(gate.tensor.values.end(), at, at + half);
                        up.tensor.values.insert(up.tensor.values.end(), at + half, at + 2 * half);
                    }
                    replace(gate.name, "experts.gate_up_proj", "switch_mlp.gate_proj.weight");
                    replace(up.name, "experts.gate_up_proj", "switch_mlp.up_proj.weight");
                    split.push_back(gate);
                    split.push_back(up);
                    continue;
                }
                replace(one.name, "experts.down_proj", "switch_mlp.down_proj.weight");
                split.push_back(one);
            }
            it.tensors = std::move(split);
        });
        EXPECT_EQ(logits_of(of_mlx), expected) << prefix;
    }
}

TEST_F(FlashNextFiles, ATableMayBeStoredAsCodes) {
    Source it = source();
    // Rows of 32 columns, which codes can have; the golden's have 8.
    it.config["text_config"]["ple_embed_dim"] = 8 * 32;
    std::uint32_t random = 1;
    const auto widen = [&](const std::string& name, std::uint64_t columns, float scale) {
        auto& tensor = named(it.tensors, name).tensor;
        tensor.shape[1] = columns;
        tensor.values.resize(tensor.shape[0] * columns);
        for (float& value : tensor.values) {
            random = random * 1664525u + 1013904223u;
            value = (float(random >> 8) * 0x1p-23f - 1) * scale;
        }
    };
    for (int part = 0; part < 4; ++part)
        widen(table + "ngram_embedding.shard_" + std::to_string(part) + ".weight", 32, 1);
    widen(ple + "key_proj.weight", 256, 0.1f);
    widen(ple + "value_proj.weight", 256, 0.1f);
    for (const std::uint32_t bits : {3u, 4u, 8u})
        for (const ElementType scales : {ElementType::bf16, ElementType::f16, ElementType::f32}) {
            const std::string path = room_.path() + "/" + std::to_string(written_++);
            write_forms(path, it.tensors, it.config, [&](const std::string& module) -> StoredForm {
                if (module.find("ngram_embedding") == std::string::npos) return {};
                return {.kind = StoredForm::Kind::affine, .bits = bits, .group = 32, .scales = scales};
            });
            const Logits expected = logits_of(path + "/plain");
            EXPECT_EQ(logits_of(path + "/stored"), expected) << bits << " bits";
            EXPECT_EQ(logits_with_little(path + "/stored"), logits_of(path + "/plain", {.backend = "cpu"}))
                << bits << " bits";
        }
}

TEST_F(FlashNextFiles, ATableMayBeStoredAsFp8WithOneFactor) {
    const Source it = source();
    constexpr float factor = 0.03f;
    CheckpointWriter stored, plain;
    for (const NamedTensor& one : it.tensors) {
        const auto& [values, shape] = one.tensor;
        if (!one.whole.empty()) {
            for (CheckpointWriter* to : {&stored, &plain})
                to->add(one.name, one.whole_type, shape, one.whole);
        } else if (one.name.find("ngram_embedding.shard_") == std::string::npos) {
            for (CheckpointWriter* to : {&stored, &plain}) to->add_floats(one.name, shape, values);
        } else {
            std::vector<std::byte> codes;
            std::vector<float> read;
            for (const float value : values) {
                const auto code = std::uint8_t(int(std::fabs(value) * 100) % 127 | (value < 0 ? 128 : 0));
                codes.push_back(std::byte(code));
                read.push_back(blocks::e4m3(code) * factor);
            }
            stored.add(one.name, ElementType::f8_e4m3, shape, codes);
            plain.add_floats(one.name, shape, read);
        }
    }
    stored.add_floats(table + "ngram_embedding.weight_scale", {}, {factor});
    stored.write(room_.path() + "/stored", it.config);
    plain.write(room_.path() + "/plain", it.config);
    EXPECT_EQ(logits_of(room_.path() + "/stored"), logits_of(room_.path() + "/plain"));
    EXPECT_EQ(logits_with_little(room_.path() + "/stored"),
              logits_of(room_.path() + "/plain", {.backend = "cpu"}));
    EXPECT_GT(largest_difference(logits_of(room_.path() + "/plain"), logits_of(folder)), 0.0);
}

TEST_F(FlashNextFiles, ATableInAFileThatBecomesShorterIsAnErrorOfTheStep) {
    const auto is_table = [](const NamedTensor& one) {
        return one.name.find("ngram_embedding.") != std::string::npos;
    };
    const std::string model = changed([&](Source& it) { std::erase_if(it.tensors, is_table); }),
                      table_alone = changed([&](Source& it) {
                          std::erase_if(it.tensors, [&](const NamedTensor& one) { return !is_table(one); });
                      }),
                      table_file = model + "/model-table.safetensors";
    std::filesystem::rename(table_alone + "/model.safetensors", table_file);
    align_tensors(table_file);
    EXPECT_EQ(logits_with_little(model), logits_of(folder, {.backend = "cpu"}));

    const auto checkpoint = open_checkpoint(model);
    ASSERT_TRUE(checkpoint) << checkpoint.error().message;
    const auto runner = load_runner(
        *checkpoint, {.sequences = 1, .backend = "cpu", .expert_bytes = least_expert_bytes(model)});
    ASSERT_TRUE(runner) << runner.error().message;
    const std::vector<Page> pages{0};
    Step step{.tokens = {3}, .parents = {no_parent}, .segments = {{0, 0, 1, 0, true, pages}}, .wanted = {0}};
    EXPECT_TRUE((*runner)->forward(step));
    std::filesystem::resize_file(table_file, 4096);
    for (Token token = 4; token < 6; ++token) {
        step.tokens = {token};
        step.segments[0].committed = std::uint32_t(token) - 3;
        const auto logits = (*runner)->forward(step);
        ASSERT_FALSE(logits);
        EXPECT_EQ(logits.error().fault, Fault::device);
        EXPECT_NE(logits.error().message.find("became shorter"), std::string::npos) << logits.error().message;
    }
}

TEST_F(FlashNextFiles, WithoutItsConstantsOrWithRoundedOnesTheHashIsComputed) {
    const Logits expected = logits_of(folder);
    const auto is_constant = [](const NamedTensor& one) { return !one.whole.empty(); };
    EXPECT_EQ(logits_of(changed([&](Source& it) {
                  it.config["text_config"]["seed"] = 1234;
                  std::erase_if(it.tensors, is_constant);
              })),
              expected);
    EXPECT_EQ(logits_of(changed([&](Source& it) {
                  for (NamedTensor& one : it.tensors)
                      if (is_constant(one)) {
                          one.whole.clear();
                          one.tensor.values.assign(one.tensor.shape[0], 1e9f);
                      }
              })),
              expected);
}

TEST_F(FlashNextFiles, ATableThatDoesNotHoldTogetherIsRefusedWithItsName) {
    const auto refused = [&](const std::string& tensor, const std::vector<std::int64_t>& values) {
        return why_refused([&](Source& it) { set_whole(it.tensors, table + tensor, values); });
    };
    const auto expect = [](const std::string& why, const std::string& what) {
        EXPECT_NE(why.find(what), std::string::npos) << why << "\nwithout " << what;
    };
    expect(refused("layer_multipliers", {3, 5}), "layer_multipliers");
    expect(refused("layer_multipliers", {3, -5, 7}), "layer_multipliers");
    expect(refused("layer_multipliers", {3, std::int64_t{1} << 62, 7}), "layer_multipliers");
    expect(refused("ngram_heads_vocab_sizes", {97, 101, 103, 107, 109, 113, 127, 0}), "0 rows");
    expect(refused("ngram_heads_vocab_sizes", {97, 101, 103, 107, 109, 113, 127, 1000}), "shard_0");
    expect(refused("ngram_heads_offsets", {0, 97, 198, 301, 408, 517, 630, 890}), "part 7");
    expect(refused("ngram_heads_offsets", {0, 97, 198, 301, 408, 517, 630, 757, 800}), "ngram_heads_offsets");
    expect(why_refused([&](Source& it) { it.config["text_config"]["split_ngram_parts"] = 3; }),
           "split_ngram_parts");
    expect(why_refused([&](Source& it) { it.config["text_config"]["split_ngram_parts"] = 2; }), "shard_0");
    expect(why_refused([&](Source& it) { it.config["text_config"]["split_ngram_parts"] = 8; }), "shard_0");
}

TEST_F(FlashNextFiles, ATensorThatIsLeftOverMissingOrOfAnotherShapeIsRefusedWithItsName) {
    const std::string indexer = "model.language_model.layers.2.self_attn.indexer.";
    const auto refused_without = [&](const std::string& name) {
        return why_refused([&](Source& it) {
            named(it.tensors, name);
            std::erase_if(it.tensors, [&](const NamedTensor& one) { return one.name == name; });
        });
    };
    for (const std::string& name :
         {indexer + "index_qk_proj.weight", ple + "norm_conv.weight",
          table + "ngram_embedding.shard_3.weight",
          std::string("model.language_model.layers.0.attn_hyper_connection.block_inject_weight.weight"),
          std::string("model.language_model.hyper_connection_mixer.hc_norm.weight")})
        EXPECT_NE(refused_without(name).find(name), std::string::npos) << name;
    for (const std::string& name :
         {indexer + "k_scale_of_another", std::string("model.language_model.norm.weight")})
        EXPECT_NE(why_refused([&](Source& it) { it.tensors.push_back({name, {{1, 2}, {2}}}); }).find(name),
                  std::string::npos)
            << name;
    EXPECT_NE(why_refused([&](Source& it) {
                  auto& shape = named(it.tensors, indexer + "index_qk_proj.weight").tensor.shape;
                  std::swap(shape[0], shape[1]);
              }).find("index_qk_proj"),
              std::string::npos);
}

TEST_F(FlashNextFiles, FieldsThatAreUnknownOrCannotBeAreRefusedWithTheirNames) {
    ChangedConfigs configs(folder);
    const Json rope = source().config["text_config"]["rope_parameters"];
    const auto with_rope = [&](const char* key, const Json& value) {
        Json changed = rope;
        changed[key] = value;
        return changed;
    };
    const std::pair<const char*, Json> cases[] = {
        {"hc_count", 1},
        {"hc_count", 65},
        {"hc_lowrank", 0},
        {"hc_variant", "dynamic"},
        {"indexer_kv_heads", 2},
        {"indexer_budget", 18},
        {"indexer_budget", 0},
        {"indexer_head_dim", 6},
        {"indexer_compress_ratio", 0},
        {"indexer_score_bias", true},
        {"indexer_window", 128},
        {"ple_layer_ids", Json::array({3})},
        {"ple_layer_ids", Json::array({2, 2})},
        {"ple_layer_ids", Json::array({0})},
        {"ple_layer_ids", Json::array({7})},
        {"ple_conv_kernel_size", 9},
        {"ple_gate", "tanh"},
        {"ple_embed_dim", 60},
        {"ngram_size", 1},
        {"ngram_vocab_size_base", nullptr},
        {"ngram_dilation", 2},
        {"split_ngram_parts", 0},
        {"eos_token_id", 320},
        {"output_gate_type", "tanh"},
        {"output_gate_type", nullptr},
        {"hidden_act", "gelu"},
        {"norm_topk_prob", false},
        {"attention_bias", true},
        {"attn_output_gate", false},
        {"num_experts_per_tok", 13},
        {"num_key_value_heads", 3},
        {"linear_num_key_heads", 4},
        {"moe_latent_size", 8},
        {"final_logit_softcapping", 30},
        {"layer_types", Json::array({"linear_attention"})},
        {"layer_types", Json::array({"mamba", "mamba", "mamba", "mamba", "mamba", "mamba"})},
        {"vocab_size", 1 << 24},
        {"mlp_only_layers", Json::array({0})},
        {"rope_scaling", {{"rope_type", "yarn"}}},
    };
    for (const auto& [key, value] : cases) {
        const std::string why = configs.why_refused(key, value);
        EXPECT_TRUE(why.starts_with("config.json: text_config.") && why.find(key) != std::string::npos)
            << key << " " << value << ": " << why;
    }
    for (const auto& [key, value] : {std::pair<const char*, Json>{"rope_type", "yarn"},
                                     {"rope_theta", 0},
                                     {"factor", 4.0},
                                     {"mrope_interleaved", false}}) {
        const std::string why = configs.why_refused("rope_parameters", with_rope(key, value));
        EXPECT_NE(why.find(std::string("rope_parameters.") + key), std::string::npos) << why;
    }
    EXPECT_EQ(configs.why_refused({{"router_aux_loss_coef", 0.5}, {"mlp_only_layers", Json::array()}}),
              "loaded");
}

TEST_F(FlashNextFiles, FullAttentionIsSparseUnderBothItsNames) {
    ChangedConfigs configs(folder);
    Json types = source().config["text_config"]["layer_types"];
    for (Json& type : types)
        if (type == "full_attention") type = "qwen_sparse_attention";
    EXPECT_EQ(logits_of(configs.with("layer_types", types)), logits_of(folder));
    EXPECT_EQ(logits_of(configs.with("layer_types", nullptr)), logits_of(folder));  // every third, as it says
}

}  // namespace
}  // namespace kapitsa

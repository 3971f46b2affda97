// GGUF files of families that store more than a table of names tells: Qwen3.8-Flash-Next, Dory and Flint.
// Their logits and drafts are those of the folders they were written from, and what is missing or unknown is
// refused.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "golden/gguf_files.h"
#include "golden/loading.h"
#include "golden/model_case.h"
#include "support/checkpoint_writer.h"
#include "support/gguf_model.h"
#include "support/golden.h"

namespace kapitsa {
namespace {

/// A file of a golden, changed.
template <typename Change>
std::string refusal(const char* golden, Change change) {
    GgufWriter writer = gguf_of(golden, ElementType::f32);
    change(writer);
    return refusal(writer);
}
std::string refusal_without(const char* golden, const std::string& key) {
    return refusal(golden, [&](GgufWriter& writer) { writer.remove(key); });
}

class GgufFamily : public testing::TestWithParam<const char*> {};

TEST_P(GgufFamily, InBlocksHasTheLogitsOfTheWeightsItStandsFor) {
    const TemporaryFolder folder;
    const std::string file = folder.path() + "/model.gguf", plain = folder.path() + "/plain.gguf";
    gguf_of(GetParam(), ElementType::q8_0).write(file);
    gguf_of(GetParam(), ElementType::f32, ElementType::q8_0).write(plain);  // the same weights, widened
    const Logits logits = logits_of(file);
    EXPECT_LT(largest_difference(logits, logits_of(plain)), 1e-3);
    gguf_of(GetParam(), ElementType::f32).write(plain);  // and they are not the golden's own
    EXPECT_GT(largest_difference(logits, logits_of(plain)), 1e-3);
}

INSTANTIATE_TEST_SUITE_P(Models, GgufFamily, testing::Values("qwen4_exp", "dory", "flint"));

TEST(GgufOfDory, HasTheBitsOfTheFolder) {
    const TemporaryFolder folder;
    const std::string file = folder.path() + "/model.gguf";
    gguf_of("dory", ElementType::bf16).write(file);
    // Settings of a GGUF file are floats of 32 bits.
    ChangedConfigs configs("tests/data/goldens/dory");
    EXPECT_EQ(
        logits_of(file),
        logits_of(configs.with({{"init_method_std", double(0.02f)}, {"ngpt_alpha_init", double(0.05f)}})));
    const Golden outputs("dory/goldens.safetensors");
    const auto ids = outputs.ints("p40.ids").values;
    ModelCase model(file);
    auto sequence = model.begin(0);
    EXPECT_LT(largest_difference(model.chain(sequence, {ids.begin(), ids.end()}),
                                 outputs.floats("p40.per_loop.l2.logits").values),
              1e-4);
}

TEST(GgufOfFlashNext, TheHeadThatDraftsIsTheReferences) {
    const TemporaryFolder folder;
    const Golden outputs("qwen4_exp/golden.safetensors");
    const Json prompts = read_golden_json("qwen4_exp/golden.json")["prompts"];
    const auto tokens = tokens_of(prompts["7"]["input_ids"]);
    std::vector<Token> next(tokens.begin() + 1, tokens.end());
    next.push_back(tokens_of(prompts["7"]["greedy"])[0]);
    const std::vector<std::uint32_t> from{0, 1, 2, 3, 4, 5, 6};
    for (const ElementType type : {ElementType::f32, ElementType::bf16}) {
        gguf_of("qwen4_exp", type).write(folder.path() + "/model.gguf");
        ModelCase model(folder.path() + "/model.gguf", {.drafter = true});
        ASSERT_TRUE(model.runner().drafts());
        auto sequence = model.begin(1);
        model.chain(sequence, tokens);
        const Logits drafts = model.draft(sequence, 0, next, ModelRunner::Streams::of_model, from);
        EXPECT_LT(largest_difference(drafts, outputs.floats("p7.mtp_prompt_logits_fp32").values), 1e-3);
    }
}

TEST(GgufOfFlashNext, TheHashIsThatOfTheFile) {
    const TemporaryFolder folder;
    const std::string file = folder.path() + "/model.gguf", other = folder.path() + "/other.gguf";
    GgufWriter writer = gguf_of("qwen4_exp", ElementType::f32);
    writer.write(file);
    writer.long_numbers("qwen4exp.ple.layer_multipliers", {3, 5, 7}).write(other);
    EXPECT_GT(largest_difference(logits_of(file), logits_of(other)), 1e-3);
}

TEST(GgufOfFlashNext, WhatIsMissingOrWrongIsNamed) {
    constexpr const char* golden = "qwen4_exp";
    for (const char* key :
         {"hyper_connection.count", "hyper_connection.low_rank", "attention.indexer.head_count",
          "attention.indexer.key_length", "attention.indexer.top_k", "attention.compress_ratios",
          "ple.ngram_size", "ple.heads_per_ngram", "ple.conv_kernel", "ple.eos_token_id",
          "ple.layer_multipliers", "ple.head_vocab_sizes", "ple.head_offsets", "expert_count",
          "expert_shared_feed_forward_length", "embedding_length_per_layer_input"})
        expect_in(key, refusal_without(golden, std::string("qwen4exp.") + key));
    const auto changed = [](auto change) { return refusal(golden, change); };
    expect_in("that this model does not know", refusal_without(golden, "qwen4exp.ple.layers"));
    expect_in("ple.layers names several layers",
              changed([](GgufWriter& w) { w.numbers("qwen4exp.ple.layers", {1, 3}); }));
    expect_in("ple_layer_ids names layer 3, which attends",
              changed([](GgufWriter& w) { w.numbers("qwen4exp.ple.layers", {2}); }));
    expect_in("ple.layer_multipliers must be a list of whole numbers of 64 bits",
              changed([](GgufWriter& w) { w.numbers("qwen4exp.ple.layer_multipliers", {3, 5, 7}); }));
    expect_in("negative",
              changed([](GgufWriter& w) { w.long_numbers("qwen4exp.ple.layer_multipliers", {3, 5, -7}); }));
    expect_in("[2] is 0", changed([](GgufWriter& w) {
                  w.numbers("qwen4exp.attention.compress_ratios", {0, 0, 0, 0, 0, 4, 0});
              }));
    expect_in("is 4 in one layer and 8 in another", changed([](GgufWriter& w) {
                  w.numbers("qwen4exp.attention.compress_ratios", {0, 0, 4, 0, 0, 8, 0});
              }));
    expect_in("has 3 numbers for 7 blocks",
              changed([](GgufWriter& w) { w.numbers("qwen4exp.attention.compress_ratios", {0, 0, 4}); }));
    expect_in("has the shape", changed([](GgufWriter& w) {
                  w.long_numbers("qwen4exp.ple.head_vocab_sizes",
                                 {1000, 1009, 1013, 1019, 1021, 1031, 1033, 1039});
              }));
    expect_in("blk.0.extra.weight",
              changed([](GgufWriter& w) { w.floats("blk.0.extra.weight", ElementType::f32, {1}, {1.0f}); }));
}

TEST(GgufOfDory, WhatIsMissingOrWrongIsNamed) {
    for (const char* key :
         {"layer_pattern", "input_layer_count", "recurrent_layer_count", "output_layer_count",
          "recurrent_loop_count", "rope.profile", "rope.freq_base", "init_std", "alpha_init", "gate_init",
          "attention.sliding_window", "attention.head_count_kv", "feed_forward_length"})
        expect_in(key, refusal_without("dory", std::string("dory.") + key));
    expect_in("dory.rope.freq_base_2 is missing", refusal_without("dory", "dory.rope.freq_base_2"));
    const auto changed = [](auto change) { return refusal("dory", change); };
    expect_in("last_loop",
              changed([](GgufWriter& w) { w.text("dory.recurrent_kv_cache_mode", "last_loop"); }));
    expect_in("layer_pattern names 2 layers",
              changed([](GgufWriter& w) { w.text("dory.layer_pattern", "S-"); }));
    expect_in("rope.dimension_count is 16",
              changed([](GgufWriter& w) { w.number("dory.rope.dimension_count", 16); }));
    expect_in("rope.scaling.type", changed([](GgufWriter& w) { w.text("dory.rope.scaling.type", "yarn"); }));
    expect_in("blk.0.ffn_up.weight",
              changed([](GgufWriter& w) { w.floats("blk.0.ffn_up.weight", ElementType::f32, {1}, {1.0f}); }));
}

TEST(GgufOfFlint, WhatIsMissingOrWrongIsNamed) {
    for (const char* key : {"leading_dense_block_count", "attention.sliding_window_pattern", "rope.pattern",
                            "attention.sliding_window", "expert_shared_count", "expert_used_count",
                            "rope.freq_base", "attention.layer_norm_rms_epsilon", "feed_forward_length"})
        expect_in(key, refusal_without("flint", std::string("flint.") + key));
    const auto changed = [](auto change) { return refusal("flint", change); };
    expect_in("rope.pattern is no list of 7 layers",
              changed([](GgufWriter& w) { w.flags("flint.rope.pattern", {true}); }));
    expect_in("expert_gating_func must be 2",
              changed([](GgufWriter& w) { w.number("flint.expert_gating_func", 1); }));
    expect_in("expert_weights_scale must be 1",
              changed([](GgufWriter& w) { w.real("flint.expert_weights_scale", 2.5f); }));
    expect_in("norm_topk_prob", changed([](GgufWriter& w) { w.flag("flint.expert_weights_norm", false); }));
    expect_in("has the shape", changed([](GgufWriter& w) { w.number("flint.expert_shared_count", 3); }));
    expect_in("model.layers.1.mlp.gate.weight is missing",
              changed([](GgufWriter& w) { w.number("flint.leading_dense_block_count", 1); }));
}

}  // namespace
}  // namespace kapitsa

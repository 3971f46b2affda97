// Flint against outputs in f64 arithmetic (the README beside them says how they were made), and what of its
// config.json is refused. The same arithmetic in f32 and f64 differs by 6e-6 in a logit.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "golden/forms.h"
#include "golden/loading.h"
#include "golden/model_case.h"
#include "support/golden.h"

namespace kapitsa {
namespace {

constexpr const char* folder = "tests/data/goldens/flint";
constexpr double gate = 1e-4;
constexpr std::uint32_t layers = 7;

class FlintGolden : public testing::TestWithParam<int> {
protected:
    std::string name(const char* what) const { return "p" + std::to_string(GetParam()) + "." + what; }
    std::vector<Token> tokens(const char* what) const {
        const auto values = outputs_.ints(name(what)).values;
        return {values.begin(), values.end()};
    }
    std::vector<float> floats(const char* what) const { return outputs_.floats(name(what)).values; }

private:
    const Golden outputs_{"flint/goldens.safetensors"};
};

TEST_P(FlintGolden, LogitsAtEveryPositionAreTheReferences) {
    ModelCase model(folder);
    auto sequence = model.begin(3);
    const double difference = largest_difference(model.chain(sequence, tokens("ids")), floats("logits"));
    RecordProperty("largest_difference", std::to_string(difference));
    EXPECT_LT(difference, gate);
}

TEST_P(FlintGolden, TokenByTokenIsTheSameModel) {
    ModelCase model(folder);
    auto sequence = model.begin(0);
    Logits logits;
    for (const Token token : tokens("ids")) {
        const Logits row = model.chain(sequence, {token});
        logits.insert(logits.end(), row.begin(), row.end());
    }
    EXPECT_LT(largest_difference(logits, floats("logits")), gate);
}

TEST_P(FlintGolden, EveryLayersOutputIsTheReferences) {
    std::vector<std::uint32_t> all;
    for (std::uint32_t layer = 0; layer < layers; ++layer) all.push_back(layer);
    ModelCase model(folder, {}, all);
    auto sequence = model.begin(0);
    model.chain(sequence, tokens("ids"));
    const auto hidden = floats("hidden");  // [embedding and layers, rows, width]
    const auto each = std::ptrdiff_t(hidden.size() / (layers + 1));
    for (std::uint32_t layer = 0; layer < layers; ++layer) {
        const auto from = hidden.begin() + (layer + 1) * each;
        EXPECT_LT(largest_difference(*model.runner().tapped(layer), {from, from + each}), gate)
            << "layer " << layer;
    }
}

TEST_P(FlintGolden, GreedyAnswersAreTheReferences) {
    ModelCase model(folder);
    const auto expected = tokens("greedy");
    EXPECT_EQ(greedy_answer(model, tokens("ids"), expected.size()), expected);
}

INSTANTIATE_TEST_SUITE_P(Lengths, FlintGolden, testing::Values(1, 8, 9, 10, 40));

TEST(FlintFiles, WhatIsNotUnderstoodIsRefusedByName) {
    ChangedConfigs configs(folder);
    EXPECT_EQ(configs.why_refused("routed_scaling_factor", 1.0), "loaded");
    EXPECT_EQ(configs.why_refused("rope_parameters", {{"rope_type", "default"}, {"rope_theta", 10000.0}}),
              "loaded");
    const auto expect_named = [&](const char* key, const Json& value) {
        EXPECT_NE(configs.why_refused(key, value).find(key), std::string::npos) << key << " " << value;
    };
    expect_named("hidden_act", "gelu");
    expect_named("scoring_func", "softmax");
    expect_named("attention_bias", true);
    expect_named("tie_word_embeddings", true);
    expect_named("norm_topk_prob", false);
    expect_named("use_qk_norm", false);
    expect_named("decoder_sparse_step", 2);
    expect_named("n_group", 4);
    expect_named("partial_rotary_factor", 0.5);
    expect_named("routed_scaling_factor", 2.5);
    expect_named("rope_scaling", {{"rope_type", "yarn"}});
    expect_named("no_rope_layers", {1, 1, 1, 0});
    expect_named("attn_logit_softcapping", 30.0);
    expect_named("layer_types", {"full_attention"});
    expect_named("layer_types", {"full_attention", "full_attention", "sliding_attention", "linear_attention",
                                 "sliding_attention", "full_attention", "sliding_attention"});
    expect_named("layer_types", Json());
    expect_named("no_rope_layer_indices", Json());
    expect_named("no_rope_layer_indices", {0, 7});
    expect_named("mlp_only_layers", Json());
    expect_named("mlp_only_layers", {-1});
    expect_named("sliding_window", Json());
    expect_named("sliding_window", 0);
    expect_named("num_experts_per_tok", 17);
    expect_named("num_key_value_heads", 3);
    expect_named("head_dim", 15);
    expect_named("intermediate_size", Json());
    expect_named("rope_theta", Json());
    expect_named("rms_norm_eps", Json());
}

TEST(FlintFiles, ATensorForTheChoicesAloneIsUsedIfItIsThere) {
    // A correction that lifts three experts over all others: they are chosen whatever the scores are.
    const TemporaryFolder temporary;
    auto checkpoint = open_checkpoint(KAPITSA_SOURCE_DIR "/" + std::string(folder));
    ASSERT_TRUE(checkpoint.has_value());
    const auto write = [&](const std::string& name, float lift) {
        CheckpointWriter writer;
        for (const NamedTensor& it : tensors_of(*checkpoint))
            writer.add_floats(it.name, it.tensor.shape, it.tensor.values);
        for (int layer = 2; layer < int(layers); ++layer) {
            std::vector<float> correction(16, 0);
            for (const int expert : {1, 2, 3}) correction[std::size_t(expert)] = lift;
            writer.add_floats("model.layers." + std::to_string(layer) + ".mlp.gate.e_score_correction_bias",
                              {16}, correction);
        }
        writer.write(temporary.path() + "/" + name, *checkpoint->config);
        ModelCase model(temporary.path() + "/" + name);
        auto sequence = model.begin(0);
        return model.chain(sequence, {5, 6, 7, 8});
    };
    ModelCase model(folder);
    auto sequence = model.begin(0);
    const Logits plain = model.chain(sequence, {5, 6, 7, 8});
    EXPECT_EQ(write("none", 0), plain);
    EXPECT_GT(largest_difference(write("lifted", 2), plain), 0.1);
}

}  // namespace
}  // namespace kapitsa

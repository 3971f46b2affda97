// Dory against outputs in f64 arithmetic (the README beside them says how they were made) for one, two and
// four loops, and what of its config.json is refused. The same arithmetic in f32 and f64 differs by 6e-6 in a
// logit.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "golden/loading.h"
#include "golden/model_case.h"
#include "support/golden.h"

namespace kapitsa {
namespace {

constexpr const char* folder = "tests/data/goldens/dory";
constexpr double gate = 1e-4;

struct Case {
    int length, loops;
};
void PrintTo(const Case& it, std::ostream* out) { *out << it.length << " tokens, " << it.loops << " loops"; }

class DoryGolden : public testing::TestWithParam<Case> {
protected:
    std::vector<Token> tokens(const std::string& name) const {
        const auto values = outputs_.ints(name).values;
        return {values.begin(), values.end()};
    }
    std::vector<Token> prompt() const { return tokens(length() + ".ids"); }
    std::vector<float> logits() const { return outputs_.floats(run() + ".logits").values; }
    std::string run() const { return length() + ".per_loop.l" + std::to_string(GetParam().loops); }
    std::string checkpoint() { return configs_.with("n_recurrent_loops", GetParam().loops); }

private:
    std::string length() const { return "p" + std::to_string(GetParam().length); }

    ChangedConfigs configs_{folder};
    const Golden outputs_{"dory/goldens.safetensors"};
};

TEST_P(DoryGolden, LogitsAtEveryPositionAreTheReferences) {
    ModelCase model(checkpoint());
    auto sequence = model.begin(3);
    const double difference = largest_difference(model.chain(sequence, prompt()), logits());
    RecordProperty("largest_difference", std::to_string(difference));
    EXPECT_LT(difference, gate);
}

TEST_P(DoryGolden, TokenByTokenIsTheSameModel) {
    ModelCase model(checkpoint());
    auto sequence = model.begin(0);
    Logits all;
    for (const Token token : prompt()) {
        const Logits row = model.chain(sequence, {token});
        all.insert(all.end(), row.begin(), row.end());
    }
    EXPECT_LT(largest_difference(all, logits()), gate);
}

TEST_P(DoryGolden, GreedyAnswersAreTheReferences) {
    ModelCase model(checkpoint());
    const auto expected = tokens(run() + ".greedy");
    EXPECT_EQ(greedy_answer(model, prompt(), expected.size()), expected);
}

std::vector<Case> cases() {
    std::vector<Case> all;
    for (const int length : {1, 7, 40})
        for (const int loops : {1, 2, 4}) all.push_back({length, loops});
    return all;
}
INSTANTIATE_TEST_SUITE_P(All, DoryGolden, testing::ValuesIn(cases()), [](const auto& it) {
    return std::to_string(it.param.length) + "Tokens" + std::to_string(it.param.loops) + "Loops";
});

TEST(DoryLayers, EachStepOfEachLoopIsTheReferences) {
    const Golden outputs("dory/goldens.safetensors");
    std::vector<std::string> names;
    for (int layer = 0; layer < 8; ++layer) names.push_back("in" + std::to_string(layer));
    for (int loop = 0; loop < 2; ++loop)
        for (int layer = 8; layer < 16; ++layer)
            names.push_back("loop" + std::to_string(loop) + ".layer" + std::to_string(layer));
    for (int layer = 16; layer < 24; ++layer) names.push_back("out" + std::to_string(layer));
    std::vector<std::uint32_t> taps;
    for (std::uint32_t step = 0; step < names.size(); ++step) taps.push_back(step);
    ModelCase model(folder, {}, taps);
    ASSERT_EQ(model.runner().shape().layers, names.size());
    const auto ids = outputs.ints("p7.ids").values;
    auto sequence = model.begin(0);
    model.chain(sequence, {ids.begin(), ids.end()});
    for (std::size_t step = 0; step < names.size(); ++step)
        EXPECT_LT(largest_difference(*model.runner().tapped(step),
                                     outputs.floats("p7.per_loop.l2.tap." + names[step]).values),
                  1e-5)
            << names[step];
}

TEST(DoryFiles, EachLoopHasKeysAndValuesOfItsOwn) {
    ChangedConfigs configs(folder);
    for (const std::uint32_t loops : {1u, 2u, 4u}) {
        ModelCase model(configs.with("n_recurrent_loops", loops));
        EXPECT_EQ(model.runner().shape().attention.size(), 4 + loops * 4 + 4);
    }
}

TEST(DoryFiles, ACacheOfTheLastLoopIsRefusedWhereThereAreMoreThanOne) {
    ChangedConfigs configs(folder);
    EXPECT_NE(configs.why_refused("recurrent_kv_cache_mode", "last_loop").find("per_loop"),
              std::string::npos);
    EXPECT_EQ(configs.why_refused({{"recurrent_kv_cache_mode", "last_loop"}, {"n_recurrent_loops", 1}}),
              "loaded");
}

TEST(DoryFiles, WhatIsNotUnderstoodIsRefusedByName) {
    ChangedConfigs configs(folder);
    EXPECT_EQ(configs.why_refused("recurrent_kv_cache_mode", Json()), "loaded");
    EXPECT_EQ(configs.why_refused("attention_output_gate_logit_scale_init", 8.0), "loaded");
    EXPECT_EQ(configs.why_refused("no_rope_layers", Json()), "loaded");
    const auto expect_named = [&](const char* key, const Json& value) {
        EXPECT_NE(configs.why_refused(key, value).find(key), std::string::npos) << key << " " << value;
    };
    const auto list = [](int fill, int last) {
        Json all = Json::array();
        for (int i = 0; i < 24; ++i) all.push_back(i < 23 ? fill : last);
        return all;
    };
    expect_named("dory_format_version", 2);
    expect_named("dory_format_version", Json());
    for (const char* key : {"ngpt", "fngpt", "attention_output_gate"}) expect_named(key, false);
    for (const char* key : {"ngpt_enable_final_norm", "mlp_bias", "attention_bias", "tie_word_embeddings"})
        expect_named(key, true);
    expect_named("mlp_hidden_act", "relu2");
    expect_named("initial_state", "zeros");
    expect_named("input_transform", "adapter");
    expect_named("output_transform", "add");
    expect_named("mixer_type", "linear");
    expect_named("partial_rotary_factor", 0.5);
    expect_named("partial_rotary_factor_2", 0.5);
    expect_named("swa_num_attention_heads", 2);
    expect_named("swa_num_key_value_heads", 1);
    expect_named("swa_head_dim", 16);
    expect_named("num_attention_heads", 3);
    expect_named("attention_head_dim", 31);
    expect_named("rope_scaling", {{"rope_type", "yarn"}});
    expect_named("num_hidden_layers", 23);
    expect_named("n_output_layers", 9);
    expect_named("n_recurrent_layers", 0);
    expect_named("n_recurrent_loops", 0);
    expect_named("n_recurrent_loops", 65);
    expect_named("n_recurrent_loops", Json());
    expect_named("recurrent_kv_cache_mode", "shared");
    expect_named("hybrid_layer_pattern", "S-S-S-*-");
    expect_named("hybrid_layer_pattern", "S-S-S-*-S-S-S-*-S-S-S-*M");
    expect_named("rope_profile_layers", list(1, 3));
    expect_named("rope_profile_layers", {1, 2});
    expect_named("no_rope_layers", list(0, 1));
    expect_named("no_rope_layers", {0});
    expect_named("rope_theta", Json());
    expect_named("rope_theta_2", Json());
    expect_named("swa_window_size", 0);
    expect_named("swa_window_size", Json());
    expect_named("init_method_std", 0);
    expect_named("ngpt_alpha_init", Json());
    expect_named("residual_multiplier", 0.5);
}

}  // namespace
}  // namespace kapitsa

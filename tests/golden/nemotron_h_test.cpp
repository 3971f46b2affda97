// Nemotron-H in its three forms (Mamba-2 with feed-forward layers, with experts, with experts in a latent
// space and a drafting module) against the outputs of the reference implementation, from the same weights in
// f32 arithmetic (the READMEs beside them say how they were made). The references' own f32 and f64 runs
// differ by 1.2e-5 in a logit and 6e-7 in a state.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "golden/loading.h"
#include "golden/model_case.h"
#include "support/checkpoint_writer.h"
#include "support/golden.h"

namespace kapitsa {
namespace {

struct Variant {
    const char* name;
    const char* golden;  // the folder below tests/data/goldens
    std::uint32_t layers;
    std::uint32_t heads, head_width, state_width;  // of the recurrent layers
    std::uint32_t state_at;  // the number among the recurrent layers of the one whose state is in the golden

    std::string folder() const { return std::string("tests/data/goldens/") + golden; }
    Golden outputs() const { return Golden(std::string(golden) + "/goldens.safetensors"); }
    static std::string name_of(int length, const std::string& what) {
        return "p" + std::to_string(length) + "." + what;
    }
    std::vector<float> floats(int length, const std::string& what) const {
        return outputs().floats(name_of(length, what)).values;
    }
    std::vector<Token> tokens(int length, const std::string& what = "ids") const {
        const auto values = outputs().ints(name_of(length, what)).values;
        return {values.begin(), values.end()};
    }
    /// The reference's [heads, head width, state width] as we keep it, [heads, state width, head width].
    std::vector<float> state(int length) const {
        const auto stored = floats(length, "ssm_state");
        std::vector<float> turned(stored.size());
        for (std::size_t h = 0; h < heads; ++h)
            for (std::size_t p = 0; p < head_width; ++p)
                for (std::size_t n = 0; n < state_width; ++n)
                    turned[(h * state_width + n) * head_width + p] =
                        stored[(h * head_width + p) * state_width + n];
        return turned;
    }
    /// The reference's [channels, 3] as we keep it, [3, channels].
    std::vector<float> tail(int length) const {
        const auto stored = outputs().floats(name_of(length, "conv_state"));
        const std::size_t channels = stored.shape[0], taps = stored.shape[1];
        std::vector<float> turned;
        for (std::size_t tap = 0; tap < taps; ++tap)
            for (std::size_t c = 0; c < channels; ++c) turned.push_back(stored.values[c * taps + tap]);
        return turned;
    }
};

constexpr Variant plain{"Mamba", "nemotron_h-mamba", 12, 8, 16, 32, 1},
    experts{"Experts", "nemotron_h-moe", 10, 8, 16, 32, 1},
    latent{"Latent", "nemotron_h-latent", 9, 8, 16, 16, 1};

constexpr double logit_gate = 1e-4, hidden_gate = 1e-4, state_gate = 5e-6;

struct Case {
    Variant variant;
    int length;
};
void PrintTo(const Case& it, std::ostream* out) { *out << it.variant.name << it.length; }

std::vector<Case> cases() {
    std::vector<Case> all;
    for (const Variant& variant : {plain, experts, latent})
        for (const int length : {1, 7, 64, 65, 200}) all.push_back({variant, length});
    return all;
}

class NemotronGolden : public testing::TestWithParam<Case> {
protected:
    const Variant& variant() const { return GetParam().variant; }
    int length() const { return GetParam().length; }
};

TEST_P(NemotronGolden, LogitsAtEveryPositionAreTheReferences) {
    ModelCase model(variant().folder());
    auto sequence = model.begin(3);
    const Logits logits = model.chain(sequence, variant().tokens(length()));
    const double difference = largest_difference(logits, variant().floats(length(), "logits"));
    RecordProperty("largest_difference", std::to_string(difference));
    EXPECT_LT(difference, logit_gate);
}

TEST_P(NemotronGolden, TokenByTokenIsTheSameModel) {
    ModelCase model(variant().folder());
    auto sequence = model.begin(0);
    Logits logits;
    for (const Token token : variant().tokens(length())) {
        const Logits row = model.chain(sequence, {token});
        logits.insert(logits.end(), row.begin(), row.end());
    }
    EXPECT_LT(largest_difference(logits, variant().floats(length(), "logits")), logit_gate);
}

TEST_P(NemotronGolden, EveryLayersOutputIsTheReferences) {
    std::vector<std::uint32_t> all;
    for (std::uint32_t layer = 0; layer < variant().layers; ++layer) all.push_back(layer);
    ModelCase model(variant().folder(), {}, all);
    auto sequence = model.begin(0);
    model.chain(sequence, variant().tokens(length()));
    const auto hidden = variant().floats(length(), "hidden");  // [embedding and layers, rows, width]
    const std::size_t each = hidden.size() / (variant().layers + 1);
    for (std::uint32_t layer = 0; layer < variant().layers; ++layer) {
        const auto from = hidden.begin() + std::ptrdiff_t((layer + 1) * each);
        EXPECT_LT(largest_difference(*model.runner().tapped(layer), {from, from + std::ptrdiff_t(each)}),
                  hidden_gate)
            << "layer " << layer;
    }
}

TEST_P(NemotronGolden, GreedyAnswersAreTheReferences) {
    ModelCase model(variant().folder());
    const auto expected = variant().tokens(length(), "greedy");
    EXPECT_EQ(greedy_answer(model, variant().tokens(length()), expected.size()), expected);
}

TEST_P(NemotronGolden, StateAndTailAreTheReferencesWhateverTheCuts) {
    ModelCase model(variant().folder());
    const auto tokens = variant().tokens(length());
    const auto state = variant().state(length()), tail = variant().tail(length());
    for (const std::size_t chunk :
         {std::size_t(512), std::size_t(64), std::size_t(48), std::size_t(17), std::size_t(1)}) {
        auto sequence = model.begin(1);
        for (std::size_t at = 0; at < tokens.size(); at += chunk)
            model.chain(sequence, {tokens.begin() + std::ptrdiff_t(at),
                                   tokens.begin() + std::ptrdiff_t(std::min(at + chunk, tokens.size()))});
        EXPECT_LT(largest_difference(*model.runner().recurrent_state(1, variant().state_at), state),
                  state_gate)
            << "cut every " << chunk;
        EXPECT_LT(largest_difference(*model.runner().conv_tail(1, variant().state_at), tail), 2e-5)
            << "cut every " << chunk;
    }
}

INSTANTIATE_TEST_SUITE_P(All, NemotronGolden, testing::ValuesIn(cases()), [](const auto& it) {
    return it.param.variant.name + std::to_string(it.param.length);
});

class NemotronDrafts : public testing::TestWithParam<int> {};

TEST_P(NemotronDrafts, AreTheReferencesForThePromptWholeAndInParts) {
    ModelCase model(latent.folder(), {.drafter = true});
    ASSERT_TRUE(model.runner().drafts());
    const auto prompt = latent.tokens(GetParam());
    // Row t has the stream at t and the token at t + 1; the last one the first token of the answer.
    std::vector<Token> next(prompt.begin() + 1, prompt.end());
    next.push_back(latent.tokens(GetParam(), "greedy").front());
    for (const std::size_t chunk : {std::size_t(512), std::size_t(13)}) {
        auto sequence = model.begin(2);
        Logits logits;
        std::vector<float> streams;
        for (std::size_t at = 0; at < prompt.size(); at += chunk) {
            const std::size_t end = std::min(at + chunk, prompt.size());
            const auto part = [&](const std::vector<Token>& tokens) {
                return std::vector<Token>(tokens.begin() + std::ptrdiff_t(at),
                                          tokens.begin() + std::ptrdiff_t(end));
            };
            model.chain(sequence, part(prompt));
            std::vector<std::uint32_t> from;
            for (std::size_t row = at; row < end; ++row) from.push_back(std::uint32_t(row - at));
            const Logits of_part =
                model.draft(sequence, std::uint32_t(at), part(next), ModelRunner::Streams::of_model, from);
            logits.insert(logits.end(), of_part.begin(), of_part.end());
            const auto drafted = *model.runner().drafted();
            streams.insert(streams.end(), drafted.begin(), drafted.end());
        }
        EXPECT_LT(largest_difference(logits, latent.floats(GetParam(), "mtp_logits")), logit_gate);
        EXPECT_LT(largest_difference(streams, latent.floats(GetParam(), "mtp_hidden")), hidden_gate);
    }
}

INSTANTIATE_TEST_SUITE_P(Lengths, NemotronDrafts, testing::Values(1, 7, 64, 65, 200));

TEST(NemotronDrafts, OfAModelWithoutTheModuleAreNone) {
    ModelCase model(experts.folder(), {.drafter = true});
    EXPECT_FALSE(model.runner().drafts());
}

/// Logits of a checkpoint after a prompt and three tokens.
Logits logits_of(const std::string& folder) {
    ModelCase model(folder);
    auto sequence = model.begin(0);
    Logits logits = model.chain(sequence, plain.tokens(65));
    const Logits more = model.chain(sequence, {3, 141, 59});
    logits.insert(logits.end(), more.begin(), more.end());
    return logits;
}

/// Writes a changed copy of a golden checkpoint; `change(config, name, tensor)` says whether a tensor stays.
template <typename Change>
void write_changed(const Variant& variant, const std::string& folder, Change change) {
    Json config = read_golden_json(std::string(variant.golden) + "/config.json");
    CheckpointWriter writer;
    const Golden model(std::string(variant.golden) + "/model.safetensors");
    for (const std::string& name : model.names()) {
        auto tensor = model.floats(name);
        std::string new_name = name;
        if (change(config, new_name, tensor)) writer.add_floats(new_name, tensor.shape, tensor.values);
    }
    writer.write(folder, config);
}

TEST(NemotronFiles, NamesAndShapesOfOtherHandsAreTheSameModel) {
    const TemporaryFolder folder;
    const Logits expected = logits_of(plain.folder());
    const auto expect_same = [&](const char* what, auto change) {
        const std::string path = folder.path() + "/" + what;
        write_changed(plain, path, change);
        EXPECT_EQ(logits_of(path), expected) << what;
    };
    expect_same("model", [](Json&, std::string& name, auto&) {
        if (name.starts_with("backbone.")) name.replace(0, 8, "model");
        return true;
    });
    expect_same("wrapped", [](Json& config, std::string& name, auto&) {
        if (!config.contains("llm_config")) {
            const Json inner = config;
            config = {{"model_type", "NemotronH_Nano_VL_V2"}, {"llm_config", inner}};
        }
        name = "language_model." + name;
        return true;
    });
    expect_same("mlx", [](Json&, std::string& name, auto& tensor) {
        if (name.ends_with("conv1d.weight")) std::swap(tensor.shape[1], tensor.shape[2]);
        return true;
    });
    expect_same("list", [](Json& config, std::string&, auto&) {
        Json types = Json::array();
        for (const char c : std::string("M-M-*-MM-M*-"))
            types.push_back(c == 'M' ? "mamba" : c == '*' ? "attention" : "mlp");
        config.erase("hybrid_override_pattern");
        config["layers_block_type"] = types;
        config["num_hidden_layers"] = nullptr;
        return true;
    });
    expect_same("blocks", [](Json& config, std::string&, auto&) {
        Json blocks = Json::array();
        for (const char c : std::string("M-M-*-MM-M*-"))
            blocks.push_back({{"block_type", c == 'M' ? "mamba" : c == '*' ? "attention" : "mlp"}});
        config.erase("hybrid_override_pattern");
        config["block_configs"] = blocks;
        return true;
    });
}

TEST(NemotronFiles, QuantisedTheyAreTheWeightsThatTheCodesStandFor) {
    const TemporaryFolder folder;
    Json config = read_golden_json("nemotron_h-mamba/config.json");
    CheckpointWriter quantised, stored;
    const Golden model("nemotron_h-mamba/model.safetensors");
    for (const std::string& name : model.names()) {
        const auto tensor = model.floats(name);
        if (tensor.shape.size() != 2) {
            quantised.add_floats(name, tensor.shape, tensor.values);
            stored.add_floats(name, tensor.shape, tensor.values);
            continue;
        }
        const std::string module = name.substr(0, name.size() - std::string_view(".weight").size());
        stored.add_floats(name, tensor.shape,
                          quantised.add_affine(module, tensor.shape[0], tensor.shape[1], tensor.values, 3, 32,
                                               ElementType::bf16));
    }
    stored.write(folder.path() + "/stored", config);
    config["quantization"] = {{"group_size", 32}, {"bits", 3}, {"mode", "affine"}};
    quantised.write(folder.path() + "/quantised", config);
    EXPECT_EQ(logits_of(folder.path() + "/quantised"), logits_of(folder.path() + "/stored"));
}

TEST(NemotronFiles, ExpertsMayLieStackedAndHaveNumbersOfTheirOwnByLayer) {
    const TemporaryFolder folder;
    const Logits expected = logits_of(latent.folder());
    for (const bool mlx : {false, true}) {
        const std::string path = folder.path() + (mlx ? "/mlx" : "/stacked");
        Json config = read_golden_json("nemotron_h-latent/config.json");
        CheckpointWriter writer;
        const Golden model("nemotron_h-latent/model.safetensors");
        for (const std::string& name : model.names()) {
            auto tensor = model.floats(name);
            const std::size_t at = name.find(".experts.");
            if (at == name.npos || name.starts_with("mtp.")) {
                writer.add_floats(name, tensor.shape, tensor.values);
                continue;
            }
            if (!name.substr(at).starts_with(".experts.0.")) continue;
            const std::string module = name.substr(0, at), rest = name.substr(at + 11);
            for (int expert = 1; expert < 16; ++expert) {
                const auto more =
                    model.floats(module + ".experts." + std::to_string(expert) + "." + rest).values;
                tensor.values.insert(tensor.values.end(), more.begin(), more.end());
            }
            const bool up = rest.starts_with("up");
            tensor.shape.insert(tensor.shape.begin(), 16);
            writer.add_floats(mlx ? module + ".switch_mlp." + (up ? "fc1.weight" : "fc2.weight")
                                  : module + (up ? ".experts.up_proj" : ".experts.down_proj"),
                              tensor.shape, tensor.values);
        }
        // The numbers of each layer in its block; those of the model would be wrong.
        Json blocks = Json::array();
        for (const char c : config["hybrid_override_pattern"].get<std::string>())
            if (c == 'E')
                blocks.push_back({{"block_type", "moe"},
                                  {"moe_intermediate_size", config["moe_intermediate_size"]},
                                  {"num_experts_per_tok", config["num_experts_per_tok"]}});
            else
                blocks.push_back({{"block_type", c == 'M' ? "mamba" : "attention"}});
        config["block_configs"] = blocks;
        config.erase("hybrid_override_pattern");
        config["num_experts_per_tok"] = 2;
        config["moe_intermediate_size"] = 24;
        writer.write(path, config);
        EXPECT_EQ(logits_of(path), expected) << path;
    }
}

TEST(NemotronFiles, InfinityIsReadInEveryFormThatItHasInFiles) {
    const TemporaryFolder folder;
    const Logits expected = logits_of(plain.folder());
    int written = 0;
    const auto with = [&](Json limit) {
        const std::string path = folder.path() + "/" + std::to_string(written++);
        write_changed(plain, path, [&](Json& config, std::string&, auto&) {
            config["time_step_limit"] = limit;
            return true;
        });
        return path;
    };
    for (const Json& infinity :
         {Json(nullptr), Json("Infinity"), Json{{"__float__", "Infinity"}}, Json(1e300)})
        EXPECT_EQ(logits_of(with({0.0, infinity})), expected) << infinity;
    // A bound that holds: the references, given it, differ by 0.04.
    const double clamped = largest_difference(logits_of(with({0.001, nullptr})), expected);
    EXPECT_GT(clamped, 1e-4);
    for (const Json& wrong : {Json(3), Json{1.0}, Json{2.0, 1.0}, Json{-1.0, 1.0}, Json{nullptr, nullptr},
                              Json{0.0, "much"}, Json{0.0, 1.0, 2.0}})
        EXPECT_NE(why_refused(with(wrong)).find("time_step_limit"), std::string::npos) << wrong;
}

TEST(NemotronFiles, ABoundOnTheStepIsTheReferencesBound) {
    const TemporaryFolder folder;
    for (const Variant& variant : {plain, experts, latent}) {
        write_changed(variant, folder.path() + "/" + variant.name, [](Json& config, std::string&, auto&) {
            config["time_step_limit"] = {0.001, nullptr};
            return true;
        });
        ModelCase model(folder.path() + "/" + variant.name);
        auto sequence = model.begin(0);
        EXPECT_LT(largest_difference(model.chain(sequence, variant.tokens(200)),
                                     variant.floats(200, "logits_if_dt_clamped")),
                  logit_gate)
            << variant.name;
    }
}

TEST(NemotronFiles, WhatIsNotUnderstoodIsRefusedByName) {
    const TemporaryFolder folder;
    int written = 0;
    const auto setting = [&](const Variant& variant, const char* key, Json value) {
        const std::string path = folder.path() + "/" + std::to_string(written++);
        write_changed(variant, path, [&](Json& config, std::string&, auto&) {
            config[key] = value;
            return true;
        });
        return why_refused(path);
    };
    EXPECT_EQ(setting(plain, "rope_theta", 10000), "loaded");
    EXPECT_EQ(setting(plain, "expand", 17), "loaded");
    EXPECT_EQ(setting(plain, "num_hidden_layers", 3), "loaded");
    const auto expect_named = [&](const Variant& variant, const char* key, Json value) {
        EXPECT_NE(setting(variant, key, value).find(key), std::string::npos) << key << " " << value;
    };
    expect_named(plain, "mlp_hidden_act", "silu");
    expect_named(plain, "mamba_hidden_act", "gelu");
    expect_named(plain, "attention_bias", true);
    expect_named(plain, "use_bias", true);
    expect_named(plain, "sliding_window", 4096);
    expect_named(plain, "attention_multiplier", 0.25);
    expect_named(plain, "logit_softcapping", 30.0);
    expect_named(plain, "use_qk_norm", true);
    expect_named(plain, "hybrid_override_pattern", "M-M?");
    expect_named(plain, "hybrid_override_pattern", "");
    expect_named(plain, "hybrid_override_pattern", Json());
    expect_named(plain, "mamba_num_heads", 0);
    expect_named(plain, "num_key_value_heads", 3);
    expect_named(plain, "n_groups", 3);
    expect_named(plain, "block_configs", Json::array({1, 2}));
    expect_named(experts, "num_experts_per_tok", 13);
    expect_named(experts, "n_group", 5);
    expect_named(experts, "topk_group", 2);
    expect_named(experts, "n_shared_experts", 2);
}

}  // namespace
}  // namespace kapitsa

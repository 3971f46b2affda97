// One model, three ways to write its experts down: one tensor for all of a layer, a tensor for each, and
// MLX's. All give the same bits. And what a loader must refuse of experts.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "golden/forms.h"
#include "golden/model_case.h"
#include "support/checkpoint_writer.h"

namespace kapitsa {
namespace {

using Kind = StoredForm::Kind;
using Tensors = std::vector<NamedTensor>;

struct Source {
    Tensors tensors;
    Json config;
};
Source source() {
    auto checkpoint = open_checkpoint(KAPITSA_SOURCE_DIR "/tests/data/goldens/qwen3_5-moe");
    CHECK(checkpoint.has_value());
    return {tensors_of(*checkpoint), *checkpoint->config};
}

/// Rows [first, first + count) of each expert's matrix, or of one expert's.
NamedTensor part_of(const NamedTensor& all, const std::string& name, std::uint64_t first, std::uint64_t count,
                    std::optional<std::uint64_t> expert = {}) {
    const std::uint64_t rows = all.tensor.shape[1], columns = all.tensor.shape[2];
    NamedTensor part{name, {{}, {all.tensor.shape[0], count, columns}}};
    if (expert) part.tensor.shape = {count, columns};
    for (std::uint64_t e = 0; e < all.tensor.shape[0]; ++e) {
        if (expert && e != *expert) continue;
        const auto from = all.tensor.values.begin() + std::ptrdiff_t((e * rows + first) * columns);
        part.tensor.values.insert(part.tensor.values.end(), from, from + std::ptrdiff_t(count * columns));
    }
    return part;
}

std::string before(const std::string& name, const std::string& part) {
    return name.substr(0, name.find(part));
}

/// `each(base, name, all, first, rows)` for the three matrices of experts in a fused tensor; other tensors as
/// they are.
template <typename Each>
Tensors with_experts(const Tensors& tensors, Each each) {
    Tensors changed;
    for (const NamedTensor& named : tensors) {
        const std::string base = before(named.name, "experts.");
        if (named.name.ends_with("experts.gate_up_proj")) {
            const std::uint64_t half = named.tensor.shape[1] / 2;
            each(changed, base, "gate_proj", named, 0, half);
            each(changed, base, "up_proj", named, half, half);
        } else if (named.name.ends_with("experts.down_proj")) {
            each(changed, base, "down_proj", named, 0, named.tensor.shape[1]);
        } else {
            changed.push_back(named);
        }
    }
    return changed;
}

Tensors one_by_one(const Tensors& tensors) {
    return with_experts(tensors, [](Tensors& to, const std::string& base, const std::string& name,
                                    const NamedTensor& all, std::uint64_t first, std::uint64_t rows) {
        for (std::uint64_t e = 0; e < all.tensor.shape[0]; ++e)
            to.push_back(
                part_of(all, base + "experts." + std::to_string(e) + "." + name + ".weight", first, rows, e));
    });
}

/// Stored as w of (1 + w), in the model and in its head.
bool is_shifted_norm(const NamedTensor& named) {
    return named.tensor.shape.size() == 1 && named.name.find("norm") != std::string::npos &&
           !named.name.ends_with("linear_attn.norm.weight") && !named.name.starts_with("model.visual.");
}

/// MLX's names and conventions.
Tensors as_mlx(const Tensors& tensors) {
    Tensors changed =
        with_experts(tensors, [](Tensors& to, const std::string& base, const std::string& name,
                                 const NamedTensor& all, std::uint64_t first, std::uint64_t rows) {
            to.push_back(part_of(all, base + "switch_mlp." + name + ".weight", first, rows));
        });
    for (NamedTensor& named : changed) {
        auto& [values, shape] = named.tensor;
        if (is_shifted_norm(named))
            for (float& value : values) value += 1.0f;
        if (named.name.ends_with("conv1d.weight")) std::swap(shape[1], shape[2]);
        if (named.name.starts_with("model.language_model."))
            named.name.replace(0, 21, "language_model.model.");
        else if (!named.name.starts_with("model.visual."))
            named.name = "language_model." + named.name;
    }
    return changed;
}

struct Answer {
    Logits logits, drafted;
    bool operator==(const Answer&) const = default;
};

Answer answer(const std::string& folder) {
    ModelCase model(folder, {.drafter = true});
    CHECK(model.runner().drafts());
    auto sequence = model.begin(0);
    std::vector<Token> prompt(40);
    for (std::size_t i = 0; i < prompt.size(); ++i) prompt[i] = Token(i * 37 % 500);
    Answer all;
    for (const auto& tokens : {prompt, std::vector<Token>{7}, std::vector<Token>{8, 400, 3}}) {
        const std::uint32_t committed = sequence.committed;
        const Logits logits = model.chain(sequence, tokens);
        all.logits.insert(all.logits.end(), logits.begin(), logits.end());
        std::vector<std::uint32_t> rows;
        for (std::uint32_t i = 0; i < tokens.size(); ++i) rows.push_back(i);
        const Logits drafted = model.draft(sequence, committed, tokens, ModelRunner::Streams::of_model, rows);
        all.drafted.insert(all.drafted.end(), drafted.begin(), drafted.end());
    }
    return all;
}

Answer answer_of(const Tensors& tensors, const Json& config, const StoredForm& form) {
    const TemporaryFolder folder;
    write_forms(folder.path(), tensors, config, [&](const std::string&) { return form; });
    return answer(folder.path() + "/stored");
}

TEST(ExpertLayouts, ATensorForEachExpertIsTheSameModel) {
    const auto [tensors, config] = source();
    for (const StoredForm& form : {StoredForm{Kind::bf16}, StoredForm{Kind::affine, 4, 32}})
        EXPECT_TRUE(answer_of(one_by_one(tensors), config, form) == answer_of(tensors, config, form));
}

TEST(ExpertLayouts, MlxsNamesAndConventionsAreTheSameModel) {
    const auto [tensors, config] = source();
    // As MLX quantises: the gates to 8 bits whatever the rest is, here with a scale for 64 columns. What the
    // codes stand for, under the other names and conventions, is the same model.
    const auto form_of = [](const std::string& module) {
        const bool gate = module.ends_with("mlp.gate") || module.ends_with("mlp.shared_expert_gate");
        return gate ? StoredForm{Kind::affine, 8, 64} : StoredForm{Kind::affine, 4, 32};
    };
    const TemporaryFolder folder;
    write_forms(folder.path() + "/mlx", as_mlx(tensors), config, form_of);
    write_forms(folder.path() + "/hf", tensors, config, form_of);
    EXPECT_TRUE(answer(folder.path() + "/mlx/stored") == answer(folder.path() + "/mlx/plain"));
    EXPECT_TRUE(answer(folder.path() + "/hf/stored") == answer(folder.path() + "/hf/plain"));
    EXPECT_TRUE(answer(folder.path() + "/mlx/stored") == answer(folder.path() + "/hf/stored"));
}

TEST(ExpertLayouts, AHeadThatWasLeftRawInAnMlxFileIsRecognised) {
    const auto [tensors, config] = source();
    Tensors mixed = as_mlx(tensors);
    for (NamedTensor& named : mixed)
        if (named.name.starts_with("language_model.mtp."))
            for (const NamedTensor& raw : tensors)
                if ("language_model." + raw.name == named.name && is_shifted_norm(raw))
                    named.tensor.values = raw.tensor.values;
    EXPECT_TRUE(answer_of(mixed, config, {}) == answer_of(tensors, config, {}));
}

/// The sentence with which a changed copy of the checkpoint is refused.
template <typename Change>
std::string refusal(Change change) {
    auto [tensors, config] = source();
    Tensors kept;
    for (NamedTensor& named : one_by_one(tensors))
        if (change(config["text_config"], named)) kept.push_back(std::move(named));
    const TemporaryFolder folder;
    write_forms(folder.path(), kept, config, [](const std::string&) { return StoredForm{}; });
    const auto checkpoint = open_checkpoint(folder.path() + "/plain");
    if (!checkpoint) return checkpoint.error().message;
    const auto runner = load_runner(*checkpoint, {.drafter = true});
    return runner ? "loaded" : runner.error().message;
}
std::string with_setting(const char* key, Json value) {
    return refusal([&](Json& config, NamedTensor&) {
        config[key] = value;
        return true;
    });
}
bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(Experts, WhatWouldChangeTheArithmeticIsRefusedByName) {
    EXPECT_EQ(with_setting("router_aux_loss_coef", 0.5), "loaded");
    EXPECT_TRUE(holds(with_setting("norm_topk_prob", false), "text_config.norm_topk_prob must be true"));
    EXPECT_TRUE(holds(with_setting("mlp_only_layers", {1}), "text_config.mlp_only_layers"));
    EXPECT_TRUE(holds(with_setting("decoder_sparse_step", 2), "text_config.decoder_sparse_step"));
    EXPECT_TRUE(
        holds(with_setting("num_experts_per_tok", 17), "num_experts_per_tok is more than num_experts"));
    EXPECT_TRUE(holds(with_setting("num_experts", 17), "[16, 64]"));
    EXPECT_TRUE(holds(with_setting("moe_intermediate_size", 31), "[32, 64]"));
}

TEST(Experts, AMissingAndASpareOneAreRefused) {
    const std::string down = "layers.2.mlp.experts.15.down_proj.weight";
    EXPECT_TRUE(holds(refusal([&](Json&, NamedTensor& named) { return !named.name.ends_with(down); }),
                      down + " is missing"));
    EXPECT_TRUE(holds(refusal([&](Json&, NamedTensor& named) {
                          const auto at = named.name.find("layers.2.mlp.experts.0.");
                          return at == std::string::npos;
                      }),
                      "the experts of model.language_model.layers.2.mlp are missing"));
    EXPECT_TRUE(holds(refusal([&](Json& config, NamedTensor& named) {
                          config["mtp_num_hidden_layers"] = 0;  // and the head is left alone
                          if (named.name.find("layers.2.mlp.gate.") == std::string::npos) return true;
                          named.name += "_of_another_kind";
                          return true;
                      }),
                      "mlp.gate.weight is missing"));
    EXPECT_TRUE(holds(refusal([&](Json&, NamedTensor& named) {
                          if (named.name == "mtp.layers.0.mlp.experts.3.up_proj.weight") named.name += "_b";
                          return true;
                      }),
                      "mtp.layers.0.mlp.experts.3.up_proj.weight is missing"));
}

}  // namespace
}  // namespace kapitsa

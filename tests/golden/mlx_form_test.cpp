// The dense golden model as an MLX conversion of every width, with exceptions by layer: its logits have the
// bits of the same weights stored plainly. And what a loader must refuse.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "golden/model_case.h"
#include "support/block_quantizer.h"
#include "support/checkpoint_writer.h"
#include "support/golden.h"

namespace kapitsa {
namespace {

constexpr const char* source = "tests/data/goldens/qwen3_5-dense";

Json source_config() { return read_golden_json("qwen3_5-dense/config.json"); }

/// The module of a matrix that MLX would quantise; empty for the others.
std::string quantisable_module(const std::string& name, const Array<float>& tensor) {
    if (tensor.shape.size() != 2 || !name.ends_with(".weight") || tensor.shape[1] % 32 != 0) return {};
    return name.substr(0, name.size() - 7);
}

bool is_shifted_norm(const std::string& name) {
    return name.ends_with("norm.weight") && !name.ends_with("linear_attn.norm.weight");
}

struct Form {
    std::uint32_t bits, group;
    ElementType scales;
    const char* mode = "affine";
};

/// Writes a matrix in its form. @return what its codes stand for
std::vector<float> add_matrix(CheckpointWriter& writer, const std::string& module, const Array<float>& tensor,
                              const Form& form) {
    const std::uint64_t rows = tensor.shape[0], columns = tensor.shape[1];
    const std::string mode = form.mode;
    if (mode == "affine")
        return writer.add_affine(module, rows, columns, tensor.values, form.bits, form.group, form.scales);
    const BlockForm blocks = mode == "nvfp4"   ? BlockForm::nvfp4
                             : mode == "mxfp4" ? BlockForm::mxfp4
                                               : BlockForm::mxfp8;
    auto made = quantized(blocks, tensor.values);
    writer.add(module + ".weight", ElementType::u32, {rows, columns * form.bits / 32}, std::move(made.codes));
    writer.add(module + ".scales", ElementType::u8, {rows, columns / form.group}, std::move(made.scales));
    return made.restored;
}

/// Writes two checkpoints of the same weights: MLX names and conventions, quantised as `form_of` says by
/// module; and Hugging Face names and conventions, with the weights that those codes stand for.
template <typename FormOf>
void write_both(const std::string& mlx_folder, const std::string& plain_folder, const Json& config,
                FormOf form_of) {
    const Golden model("qwen3_5-dense/model.safetensors");
    CheckpointWriter mlx, plain;
    for (const std::string& name : model.names()) {
        auto tensor = model.floats(name);
        const std::string mlx_name =
            "language_" + name.substr(0, 5) + "." + name;  // language_model.model....
        const std::string module = quantisable_module(mlx_name, tensor);
        if (!module.empty()) {
            const Form form = form_of(module);
            plain.add_floats(name, tensor.shape, add_matrix(mlx, module, tensor, form));
            continue;
        }
        plain.add_floats(name, tensor.shape, tensor.values);
        if (is_shifted_norm(name))
            for (float& value : tensor.values) value += 1.0f;
        if (name.ends_with("conv1d.weight")) tensor.shape = {tensor.shape[0], tensor.shape[2], 1};
        mlx.add_floats(mlx_name, tensor.shape, tensor.values);
    }
    mlx.write(mlx_folder, config);
    plain.write(plain_folder, source_config());
}

Logits logits_of(const std::string& folder) {
    ModelCase model(folder);
    auto sequence = model.begin(0);
    const auto prompt =
        tokens_of(read_golden_json("qwen3_5-dense/golden.json")["prompts"]["65"]["input_ids"]);
    Logits logits = model.chain(sequence, prompt);
    for (const Token token : {3, 141, 59}) {  // and the path of few rows
        const Logits row = model.chain(sequence, {token});
        logits.insert(logits.end(), row.begin(), row.end());
    }
    return logits;
}

class MlxForm : public testing::TestWithParam<Form> {};

TEST_P(MlxForm, HasTheBitsOfTheSameWeightsStoredPlainly) {
    const TemporaryFolder folder;
    Json config = source_config();
    config["quantization"] = {
        {"group_size", GetParam().group}, {"bits", GetParam().bits}, {"mode", GetParam().mode}};
    write_both(folder.path() + "/mlx", folder.path() + "/plain", config,
               [](const std::string&) { return GetParam(); });
    EXPECT_EQ(logits_of(folder.path() + "/mlx"), logits_of(folder.path() + "/plain"));
}

// The model's rows have 64 columns at the most common, so groups of 128 are seen in tests/kernels alone.
INSTANTIATE_TEST_SUITE_P(Widths, MlxForm,
                         testing::Values(Form{2, 32, ElementType::f32}, Form{3, 32, ElementType::bf16},
                                         Form{4, 32, ElementType::f16}, Form{5, 32, ElementType::f32},
                                         Form{6, 32, ElementType::bf16}, Form{8, 32, ElementType::f16},
                                         Form{4, 16, ElementType::u8, "nvfp4"},
                                         Form{4, 32, ElementType::u8, "mxfp4"},
                                         Form{8, 32, ElementType::u8, "mxfp8"}),
                         [](const auto& form) {
                             return std::string(form.param.mode) + "Bits" + std::to_string(form.param.bits);
                         });

TEST(MlxForm, LayersMayHaveFormsOfTheirOwn) {
    const TemporaryFolder folder;
    const auto form_of = [](const std::string& module) {
        if (module.ends_with("embed_tokens")) return Form{8, 64, ElementType::bf16};
        if (module.ends_with("down_proj")) return Form{6, 32, ElementType::bf16};
        if (module.ends_with("up_proj")) return Form{4, 16, ElementType::u8, "nvfp4"};
        if (module.find("layers.2.") != std::string::npos) return Form{3, 32, ElementType::bf16};
        return Form{4, 32, ElementType::bf16};
    };
    Json config = source_config();
    config["quantization"] = {{"group_size", 32}, {"bits", 4}, {"mode", "affine"}};
    const Golden model("qwen3_5-dense/model.safetensors");
    for (const std::string& name : model.names()) {
        const std::string module = quantisable_module("language_model." + name, model.floats(name));
        if (module.empty()) continue;
        const Form form = form_of(module);
        if (form.bits != 4 || std::string(form.mode) != "affine")
            config["quantization"][module] = {
                {"group_size", form.group}, {"bits", form.bits}, {"mode", form.mode}};
    }
    write_both(folder.path() + "/mlx", folder.path() + "/plain", config, form_of);
    EXPECT_EQ(logits_of(folder.path() + "/mlx"), logits_of(folder.path() + "/plain"));
}

/// The sentence with which a changed copy of the golden checkpoint is refused.
template <typename Change>
std::string refusal(Change change) {
    const TemporaryFolder folder;
    Json config = source_config();
    CheckpointWriter writer;
    const Golden model("qwen3_5-dense/model.safetensors");
    for (const std::string& name : model.names()) {
        auto tensor = model.floats(name);
        std::string new_name = name;
        if (change(config, new_name, tensor)) writer.add_floats(new_name, tensor.shape, tensor.values);
    }
    writer.write(folder.path() + "/model", config);
    const auto checkpoint = open_checkpoint(folder.path() + "/model");
    if (!checkpoint) return checkpoint.error().message;
    const auto runner = load_runner(*checkpoint);
    return runner ? "loaded" : runner.error().message;
}

bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(LoadRunner, RefusesWhatItDoesNotUnderstandAndNamesIt) {
    const auto setting = [](const char* key, Json value) {
        return refusal([&](Json& config, std::string&, auto&) {
            config[key] = value;
            return true;
        });
    };
    EXPECT_EQ(setting("use_cache", true), "loaded");
    EXPECT_TRUE(holds(setting("model_type", "llama"),
                      "model_type \"llama\" is not an architecture that kapitsa runs; "
                      "it runs: "));
    EXPECT_TRUE(holds(setting("hidden_act", "gelu"), "config.json: hidden_act is \"gelu\""));
    EXPECT_TRUE(holds(setting("attention_bias", true), "config.json: attention_bias must be false"));
    EXPECT_TRUE(holds(setting("num_hidden_layers", -3), "config.json: num_hidden_layers is -3"));
    EXPECT_TRUE(holds(setting("num_hidden_layers", 9), "layer_types names 8 layers"));
    EXPECT_TRUE(holds(setting("hidden_size", 65), "[512, 64]"));
    EXPECT_TRUE(holds(setting("num_experts", 16), "the tensor model.layers.0.mlp.gate.weight is missing"));
    EXPECT_TRUE(holds(setting("rope_parameters", {{"rope_theta", 1e7}, {"rope_type", "yarn"}}),
                      "rope_type is \"yarn\""));
}

TEST(LoadRunner, RefusesAMissingATurnedAndASpareTensor) {
    EXPECT_TRUE(holds(refusal([](Json&, std::string& name, auto&) { return name != "model.norm.weight"; }),
                      "the tensor model.norm.weight is missing"));
    EXPECT_TRUE(holds(refusal([](Json&, std::string& name, auto& tensor) {
                          if (name.ends_with("layers.0.mlp.down_proj.weight"))
                              std::swap(tensor.shape[0], tensor.shape[1]);
                          return true;
                      }),
                      "model.layers.0.mlp.down_proj.weight has the shape [96, 64]"));
    EXPECT_TRUE(holds(refusal([](Json&, std::string& name, auto&) {
                          if (name == "model.norm.weight") name = "model.layers.3.self_attn.sinks";
                          return true;
                      }),
                      "model.norm.weight is missing"));
    EXPECT_TRUE(holds(refusal([](Json& config, std::string& name, auto&) {
                          config["num_hidden_layers"] = 4;
                          config["layer_types"] = nullptr;
                          return !name.empty();
                      }),
                      "tensors that this model does not know, the first of them model.layers.4."));
}

}  // namespace
}  // namespace kapitsa

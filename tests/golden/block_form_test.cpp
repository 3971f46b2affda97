// The dense golden model in the forms of ModelOpt, compressed-tensors and FP8, under the names that each
// gives: its logits have the bits of the same weights stored plainly, and stay near those of the weights
// before they were quantised. And what a loader must refuse. (MLX's modes: mlx_form_test.cpp.)

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/float16.h"
#include "golden/model_case.h"
#include "support/block_quantizer.h"
#include "support/checkpoint_writer.h"
#include "support/golden.h"

namespace kapitsa {
namespace {

Json source_config() { return read_golden_json("qwen3_5-dense/config.json"); }

std::vector<std::byte> bytes_of(const std::vector<float>& values) {
    const Bytes bytes = std::as_bytes(std::span(values));
    return {bytes.begin(), bytes.end()};
}

/// A matrix under way to a checkpoint.
struct Matrix {
    std::string module;
    std::uint64_t rows, columns;
    std::vector<float> values;
};

// Each writes a matrix as one convention has it, and returns what it then stands for.

std::vector<float> as_modelopt_nvfp4(CheckpointWriter& to, const Matrix& m) {
    const float factor = largest_magnitude(m.values) / (6 * 448);
    auto made = quantized(BlockForm::nvfp4, m.values, factor);
    to.add(m.module + ".weight", ElementType::u8, {m.rows, m.columns / 2}, std::move(made.codes));
    to.add(m.module + ".weight_scale", ElementType::f8_e4m3, {m.rows, m.columns / 16},
           std::move(made.scales));
    to.add(m.module + ".weight_scale_2", ElementType::f32, {}, bytes_of({factor}));
    to.add(m.module + ".input_scale", ElementType::f32, {}, bytes_of({0.01f}));
    return made.restored;
}

std::vector<float> as_compressed_nvfp4(CheckpointWriter& to, const Matrix& m) {
    const float global = 6 * 448 / largest_magnitude(m.values);
    auto made = quantized(BlockForm::nvfp4, m.values, float(1.0 / double(global)));
    to.add(m.module + ".weight_packed", ElementType::u8, {m.rows, m.columns / 2}, std::move(made.codes));
    to.add(m.module + ".weight_scale", ElementType::f8_e4m3, {m.rows, m.columns / 16},
           std::move(made.scales));
    to.add(m.module + ".weight_global_scale", ElementType::f32, {1}, bytes_of({global}));
    to.add(m.module + ".input_global_scale", ElementType::f32, {1}, bytes_of({100.0f}));
    return made.restored;
}

std::vector<float> as_compressed_mxfp4(CheckpointWriter& to, const Matrix& m) {
    auto made = quantized(BlockForm::mxfp4, m.values);
    to.add(m.module + ".weight_packed", ElementType::u8, {m.rows, m.columns / 2}, std::move(made.codes));
    to.add(m.module + ".weight_scale", ElementType::u8, {m.rows, m.columns / 32}, std::move(made.scales));
    return made.restored;
}

std::vector<float> as_modelopt_mxfp8(CheckpointWriter& to, const Matrix& m) {
    auto made = quantized(BlockForm::mxfp8, m.values);
    to.add(m.module + ".weight", ElementType::f8_e4m3, {m.rows, m.columns}, std::move(made.codes));
    to.add(m.module + ".weight_scale", ElementType::u8, {m.rows, m.columns / 32}, std::move(made.scales));
    return made.restored;
}

/// A factor for each tile, stored as f32 under a name and in a shape.
std::vector<float> as_fp8(CheckpointWriter& to, const Matrix& m, std::size_t tile_rows,
                          std::size_t tile_columns, const char* name, std::vector<std::uint64_t> shape) {
    auto made = quantized_fp8(m.values, m.columns, tile_rows, tile_columns);
    to.add(m.module + ".weight", ElementType::f8_e4m3, {m.rows, m.columns}, std::move(made.codes));
    to.add(m.module + name, ElementType::f32, std::move(shape), bytes_of(made.factors));
    return made.restored;
}
std::vector<float> as_fp8_of_tensor(CheckpointWriter& to, const Matrix& m) {
    return as_fp8(to, m, m.rows, m.columns, ".weight_scale", {});
}
std::vector<float> as_fp8_of_channels(CheckpointWriter& to, const Matrix& m) {
    return as_fp8(to, m, 1, m.columns, ".weight_scale", {m.rows, 1});
}
std::vector<float> as_fp8_of_tiles(CheckpointWriter& to, const Matrix& m) {
    return as_fp8(to, m, 128, 128, ".weight_scale_inv", {(m.rows + 127) / 128, (m.columns + 127) / 128});
}
std::vector<float> as_fp8_of_small_tiles(CheckpointWriter& to, const Matrix& m) {
    return as_fp8(to, m, 48, 24, ".weight_scale_inv", {(m.rows + 47) / 48, (m.columns + 23) / 24});
}

bool is_attention(const Matrix& m) { return m.module.find("self_attn") != std::string::npos; }
std::vector<float> as_mixed(CheckpointWriter& to, const Matrix& m) {
    return is_attention(m) ? as_fp8_of_tensor(to, m) : as_modelopt_nvfp4(to, m);
}

/// One way to store the model.
struct Convention {
    const char* name;
    std::vector<float> (*write)(CheckpointWriter&, const Matrix&);
    const char* quantization_config;  // of config.json; "" for none
    const char* hf_quant_config;      // the file of that name; "" for none
    // The rms of what it does over the rms of what it does it to, at most: to the matrices; and to the
    // logits, where this model of random weights multiplies it. (Measured, and a little more.)
    double of_weights, of_logits;
};

constexpr const char* modelopt_nvfp4 = R"({"quant_method":"modelopt","quant_algo":"NVFP4","group_size":16,
    "ignore":["model.embed_tokens"],"kv_cache_scheme":{"num_bits":8,"type":"float"}})";
const Convention conventions[] = {
    {"ModelOptNvfp4", as_modelopt_nvfp4, modelopt_nvfp4, "", 0.11, 0.95},
    {"ModelOptNvfp4InItsOwnFile", as_modelopt_nvfp4, "",
     R"({"producer":{"name":"modelopt"},"quantization":{"quant_algo":"NVFP4","kv_cache_quant_algo":"FP8",
         "group_size":16,"exclude_modules":["model.embed_tokens*"]}})",
     0.11, 0.95},
    {"ModelOptFp8", as_fp8_of_tensor, R"({"quant_method":"modelopt","quant_algo":"FP8"})", "", 0.03, 0.45},
    {"ModelOptMxfp8", as_modelopt_mxfp8, R"({"quant_method":"modelopt","quant_algo":"MXFP8"})", "", 0.09,
     0.8},
    {"ModelOptMixed", as_mixed,
     R"({"quant_method":"modelopt","quant_algo":"MIXED_PRECISION","quantized_layers":{
         "model.layers.3.self_attn.q_proj":{"quant_algo":"FP8"},
         "model.layers.3.mlp.up_proj":{"quant_algo":"NVFP4","group_size":16}}})",
     "", 0.11, 0.95},
    {"CompressedNvfp4", as_compressed_nvfp4,
     R"({"quant_method":"compressed-tensors","format":"nvfp4-pack-quantized","ignore":["re:.*embed_tokens"],
         "config_groups":{"group_0":{"targets":["Linear"],"weights":{"num_bits":4,"type":"float","group_size":16,
         "strategy":"tensor_group","symmetric":true}}}})",
     "", 0.11, 0.95},
    {"CompressedMxfp4", as_compressed_mxfp4,
     R"({"quant_method":"compressed-tensors","format":"mxfp4-pack-quantized",
         "config_groups":{"group_0":{"targets":["Linear"],"weights":{"num_bits":4,"type":"float","group_size":32}}}})",
     "", 0.15, 1.05},
    {"CompressedFp8", as_fp8_of_channels,
     R"({"quant_method":"compressed-tensors","format":"float-quantized",
         "config_groups":{"group_0":{"targets":["Linear"],"weights":{"num_bits":8,"type":"float","strategy":"channel"}}}})",
     "", 0.03, 0.45},
    {"Fp8Tiles", as_fp8_of_tiles, R"({"quant_method":"fp8","weight_block_size":[128,128]})", "", 0.03, 0.45},
    {"Fp8SmallTiles", as_fp8_of_small_tiles, R"({"quant_method":"fp8","weight_block_size":[48,24]})", "",
     0.03, 0.45},
    {"Fp8NothingSaid", as_fp8_of_tiles, "", "", 0.03, 0.45},
};

/// Every matrix but the embedding, which these conventions leave as it is.
bool is_quantisable(const std::string& name, const Array<float>& tensor) {
    return tensor.shape.size() == 2 && name.ends_with(".weight") && tensor.shape[1] % 32 == 0 &&
           name.find("embed") == std::string::npos;
}

/// The rms of the differences over that of what was wanted.
class Noise {
public:
    void add(const std::vector<float>& got, const std::vector<float>& want) {
        for (std::size_t i = 0; i < want.size(); ++i) {
            differences_ += std::pow(double(got[i]) - want[i], 2);
            sizes_ += std::pow(double(want[i]), 2);
        }
    }
    double value() const { return std::sqrt(differences_ / sizes_); }

private:
    double differences_ = 0, sizes_ = 0;
};

/// @return what became of the matrices
Noise write_model(const std::string& folder, const Convention& convention, const std::string& plain_folder) {
    Noise noise;
    const Golden model("qwen3_5-dense/model.safetensors");
    CheckpointWriter writer, plain;
    for (const std::string& name : model.names()) {
        const auto tensor = model.floats(name);
        if (!is_quantisable(name, tensor)) {
            writer.add_floats(name, tensor.shape, tensor.values);
            plain.add_floats(name, tensor.shape, tensor.values);
            continue;
        }
        const Matrix matrix{name.substr(0, name.size() - 7), tensor.shape[0], tensor.shape[1], tensor.values};
        const auto restored = convention.write(writer, matrix);
        noise.add(restored, tensor.values);
        plain.add_floats(name, tensor.shape, restored);
        if (name.ends_with("k_proj.weight"))  // of a cache in FP8
            writer.add_floats(matrix.module + ".k_scale", {}, {0.5f});
    }
    Json config = source_config();
    if (*convention.quantization_config)
        config["quantization_config"] = *parse_json(convention.quantization_config);
    writer.write(folder, config);
    if (*convention.hf_quant_config)
        std::ofstream(folder + "/hf_quant_config.json") << convention.hf_quant_config;
    plain.write(plain_folder, source_config());
    return noise;
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

class BlockForms : public testing::TestWithParam<Convention> {};

TEST_P(BlockForms, HaveTheBitsOfTheSameWeightsStoredPlainly) {
    const TemporaryFolder folder;
    const Noise of_weights = write_model(folder.path() + "/quantized", GetParam(), folder.path() + "/plain");
    const Logits got = logits_of(folder.path() + "/quantized");
    EXPECT_EQ(got, logits_of(folder.path() + "/plain"));
    static const Logits original = logits_of("tests/data/goldens/qwen3_5-dense");
    Noise of_logits;
    of_logits.add(got, original);
    EXPECT_LT(of_weights.value(), GetParam().of_weights);
    EXPECT_LT(of_logits.value(), GetParam().of_logits);
    RecordProperty("noise", std::to_string(of_weights.value()) + " " + std::to_string(of_logits.value()));
}

INSTANTIATE_TEST_SUITE_P(Conventions, BlockForms, testing::ValuesIn(conventions),
                         [](const auto& convention) { return std::string(convention.param.name); });

constexpr const char* changed = "model.layers.3.mlp.up_proj";

/// The sentence with which the model is refused when one of its matrices is written otherwise.
std::string refusal(const char* quantization_config,
                    const std::function<void(CheckpointWriter&, const Matrix&)>& write) {
    const TemporaryFolder folder;
    const Golden model("qwen3_5-dense/model.safetensors");
    CheckpointWriter writer;
    for (const std::string& name : model.names()) {
        const auto tensor = model.floats(name);
        if (name != std::string(changed) + ".weight")
            writer.add_floats(name, tensor.shape, tensor.values);
        else
            write(writer, {changed, tensor.shape[0], tensor.shape[1], tensor.values});
    }
    Json config = source_config();
    config["quantization_config"] = *parse_json(quantization_config);
    writer.write(folder.path() + "/model", config);
    const auto checkpoint = open_checkpoint(folder.path() + "/model");
    if (!checkpoint) return checkpoint.error().message;
    const auto runner = load_runner(*checkpoint);
    return runner ? "loaded" : runner.error().message;
}

TEST(LoadBlockForms, RefusesTensorsThatDoNotFitEachOther) {
    const auto expect = [](const std::string& part, const auto& write) {
        const std::string message = refusal(modelopt_nvfp4, write);
        EXPECT_NE(message.find(changed + part), std::string::npos) << message;
    };
    const auto bytes = [](std::uint64_t count) { return std::vector<std::byte>(count); };
    const auto nvfp4 = [&](ElementType scale, std::uint64_t scales, const std::vector<float>& factors) {
        return [=](CheckpointWriter& to, const Matrix& m) {
            to.add(m.module + ".weight", ElementType::u8, {m.rows, m.columns / 2},
                   bytes(m.rows * m.columns / 2));
            to.add(m.module + ".weight_scale", scale, {m.rows, scales}, bytes(m.rows * scales));
            if (!factors.empty())
                to.add(m.module + ".weight_scale_2", ElementType::f32, {factors.size()}, bytes_of(factors));
        };
    };
    EXPECT_EQ(refusal(modelopt_nvfp4, nvfp4(ElementType::f8_e4m3, 4, {1})), "loaded");
    expect(".weight_scale is stored as F8_E5M2; it must be F8_E4M3", nvfp4(ElementType::f8_e5m2, 4, {1}));
    expect(".weight_scale has the shape [96, 5]", nvfp4(ElementType::f8_e4m3, 5, {1}));
    expect(".weight_scale_2 is missing", nvfp4(ElementType::f8_e4m3, 4, {}));
    expect(".weight_scale_2 has the shape [2]; it must hold one number",
           nvfp4(ElementType::f8_e4m3, 4, {1, 1}));
    expect(".weight_scale_2 holds a scale that is no finite number",
           nvfp4(ElementType::f8_e4m3, 4, {INFINITY}));
    expect(" is stored as fp8; by config.json: quantization_config.quant_algo it is nvfp4",
           [](CheckpointWriter& to, const Matrix& m) { as_fp8_of_tensor(to, m); });
    expect(".pre_quant_scale changes what the weights mean", [&](CheckpointWriter& to, const Matrix& m) {
        as_modelopt_nvfp4(to, m);
        to.add_floats(m.module + ".pre_quant_scale", {m.columns}, std::vector<float>(m.columns, 1));
    });
}

TEST(LoadBlockForms, RefusesScalesOfFp8InNoKnownShape) {
    const auto with_shape = [&](std::vector<std::uint64_t> shape) {
        return refusal(R"({"quant_method":"fp8"})", [&](CheckpointWriter& to, const Matrix& m) {
            std::uint64_t count = 1;
            for (const std::uint64_t extent : shape) count *= extent;
            to.add(m.module + ".weight", ElementType::f8_e4m3, {m.rows, m.columns},
                   std::vector<std::byte>(m.rows * m.columns));
            to.add_floats(m.module + ".weight_scale", shape, std::vector<float>(count, 1));
        });
    };
    for (const auto& shape :
         std::vector<std::vector<std::uint64_t>>{{}, {1}, {1, 1}, {96}, {96, 1}, {96, 1, 1, 1}})
        EXPECT_EQ(with_shape(shape), "loaded");
    EXPECT_NE(with_shape({2, 1}).find("one scale, one a row [96] or one a tile [1, 1] are known"),
              std::string::npos);
    EXPECT_NE(with_shape({64}).find("weight_scale has the shape [64]"), std::string::npos);
}

}  // namespace
}  // namespace kapitsa

// The golden model that sees as two GGUF files, one of them its vision tower (mmproj): it sees with the bits
// of the model folder. And what a tower must not be.

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "golden/gguf_files.h"
#include "golden/vision_case.h"
#include "model/gguf_tower.h"
#include "support/gguf_model.h"

namespace kapitsa {
namespace {

constexpr const char* source = "qwen3_5-vision";

/// The golden's model and its tower, written as two files.
class Mmproj : public testing::Test {
protected:
    Mmproj() {
        GgufWriter model = gguf_of(source, ElementType::f32);
        add_vocabulary(model, source);
        model.write(model_);
    }
    /// What the pictures become, and the logits of a prompt that holds them.
    struct Seen {
        std::vector<float> rows;
        Logits logits;
        bool operator==(const Seen&) const = default;
    };
    static Seen seen_by(ModelCase model) {
        Seen seen;
        for (const auto& picture : {random_picture(10, 14, 9), golden_pictures().front()}) {
            const auto rows = *model.runner().see(*picture);
            seen.rows.insert(seen.rows.end(), rows.begin(), rows.end());
        }
        const Prompt prompt = golden_prompt(model);
        auto sequence = model.begin(0);
        seen.logits = prompt.compute(model, sequence, {});
        return seen;
    }
    Seen seen_by(const GgufWriter& tower) const {
        tower.write(tower_);
        return seen_by(ModelCase(model_, {}, {}, tower_));
    }
    /// Why a tower is refused, when it is opened or when the model is loaded with it; "" if it is taken.
    std::string refused(const GgufWriter& tower) const {
        tower.write(tower_);
        auto model = open_model(model_);
        auto opened = open_tower(*model, tower_);
        if (!opened) return opened.error().message;
        if (const Status added = add_tower(*model, std::move(*opened)); !added) return added.error().message;
        const auto weighed = weigh_model(*model);
        return weighed ? "" : weighed.error().message;
    }
    std::string refused(const std::function<void(GgufWriter&)>& change) const {
        GgufWriter tower = mmproj_of(source, ElementType::f32);
        change(tower);
        return refused(tower);
    }
    /// What the file says of how images are prepared.
    Json preparation(const std::function<void(GgufWriter&)>& change) const {
        GgufWriter tower = mmproj_of(source, ElementType::f32);
        change(tower);
        tower.write(tower_);
        return *open_tower(*open_model(model_), tower_)->preprocessor_config;
    }

    const TemporaryFolder folder_;
    const std::string model_ = folder_.path() + "/model.gguf", tower_ = folder_.path() + "/mmproj.gguf";
};

TEST_F(Mmproj, SeesWithTheBitsOfTheFolder) {
    const Seen expected = seen_by(ModelCase(vision_folder));
    EXPECT_TRUE(seen_by(mmproj_of(source, ElementType::f32)) == expected);
    EXPECT_TRUE(seen_by(mmproj_of(source, ElementType::bf16)) == expected);
}

TEST_F(Mmproj, TheRowsAreTheReferences) {
    mmproj_of(source, ElementType::f32).write(tower_);
    ModelCase model(model_, {}, {}, tower_);
    std::vector<float> rows;
    for (const auto& picture : golden_pictures()) {
        const auto of_picture = *model.runner().see(*picture);
        rows.insert(rows.end(), of_picture.begin(), of_picture.end());
    }
    EXPECT_LT(largest_difference(rows, outputs().floats("image.vision_merged_fp32").values), 2e-5);
}

TEST_F(Mmproj, NarrowTypesSeeWithTheWeightsTheyStandFor) {
    for (const ElementType type : {ElementType::f16, ElementType::q8_0}) {
        const Seen narrow = seen_by(mmproj_of(source, type)),
                   widened = seen_by(mmproj_of(source, ElementType::f32, type));
        EXPECT_LT(largest_difference(narrow.rows, widened.rows), 1e-5) << element_name(type);
        EXPECT_LT(largest_difference(narrow.logits, widened.logits), 1e-3) << element_name(type);
        EXPECT_TRUE(type == ElementType::f16 ||
                    narrow.rows != seen_by(mmproj_of(source, ElementType::f32)).rows);
    }
}

TEST_F(Mmproj, QueriesKeysAndValuesMayBeMatricesOfTheirOwn) {
    const Seen expected = seen_by(mmproj_of(source, ElementType::f32));
    const auto split = [&](bool all) {
        GgufWriter tower = mmproj_of(source, ElementType::f32);
        for (auto& [name, tensor] : tensors_of(source)) {
            const std::size_t at = name.find(".attn.qkv.");
            if (!name.starts_with("model.visual.blocks.") || at == name.npos) continue;
            const std::string block = "v.blk." + name.substr(20, at - 20) + ".", end = name.substr(at + 10);
            tower.remove_tensor(block + "attn_qkv." + end);
            const std::size_t each = tensor.values.size() / 3;
            tensor.shape[0] /= 3;
            for (std::size_t part = 0; part < (all ? 3u : 2u); ++part) {
                const auto from = tensor.values.begin() + std::ptrdiff_t(part * each);
                tower.floats(block + "attn_" + "qkv"[part] + "." + end, ElementType::f32, tensor.shape,
                             {from, from + std::ptrdiff_t(each)});
            }
        }
        return tower;
    };
    EXPECT_TRUE(seen_by(split(true)) == expected);
    expect_in("the tensor v.blk.0.attn_v.weight is missing", refused(split(false)));
}

TEST_F(Mmproj, TheModelAloneAnswersTextAndSaysThatItSeesNothing) {
    ModelCase model(model_);
    EXPECT_EQ(model.runner().info().picture_patches, 0u);
    EXPECT_EQ(model.runner().info().blind_because, "the model has no vision tower");
}

TEST_F(Mmproj, ATowerOfAnotherModelIsOneSentence) {
    expect_in(
        "it belongs to another model: metadata: clip.vision.projection_dim is 128, and this model is 64 wide",
        refused([](GgufWriter& t) { t.number("clip.vision.projection_dim", 128); }));
    expect_in(
        "it belongs to another model: metadata: clip.projector_type is \"gemma3\", and this model's tower "
        "has \"qwen3vl_merger\"",
        refused([](GgufWriter& t) { t.text("clip.projector_type", "gemma3"); }));
    expect_in("this is no vision tower (mmproj): metadata \"general.architecture\" is \"qwen35\"",
              refused(gguf_of(source, ElementType::f32)));
    mmproj_of(source, ElementType::f32).write(tower_);
    expect_in("this is a vision tower (mmproj), no model of its own: name the model",
              open_model(tower_).error().message);
    gguf_of("nemotron_h-mamba", ElementType::f32).write(model_);
    expect_in("models of the architecture \"nemotron_h\" are not shown images yet",
              refused([](GgufWriter&) {}));
    expect_in("of no use here",
              open_tower(*open_model(KAPITSA_SOURCE_DIR "/tests/data/goldens/qwen3_5-vision"), tower_)
                  .error()
                  .message);
    expect_in("is no GGUF file",
              open_tower(*open_model(model_), KAPITSA_SOURCE_DIR "/README.md").error().message);
}

TEST_F(Mmproj, AVocabularyWithoutATokenForImagesIsSaid) {
    gguf_of(source, ElementType::f32).write(model_);
    expect_in("the model's vocabulary has no <|image_pad|>", refused([](GgufWriter&) {}));
}

TEST_F(Mmproj, FieldsThatAreMissingOrWrongAreNamed) {
    EXPECT_EQ(refused([](GgufWriter&) {}), "");
    for (const char* key : {"block_count", "embedding_length", "feed_forward_length", "attention.head_count",
                            "patch_size", "image_size", "projection_dim"}) {
        const std::string field = std::string("clip.vision.") + key;
        expect_in("metadata: " + field + " is missing", refused([&](GgufWriter& t) { t.remove(field); }));
        expect_in("metadata: " + field + " is 0; it must be",
                  refused([&](GgufWriter& t) { t.number(field, 0); }));
        expect_in(field, refused([&](GgufWriter& t) { t.number(field, 4000000000u); }));
        expect_in(field, refused([&](GgufWriter& t) { t.text(field, "many"); }));
    }
    expect_in("clip.use_gelu is missing", refused([](GgufWriter& t) { t.remove("clip.use_gelu"); }));
    expect_in("clip.projector_type is missing",
              refused([](GgufWriter& t) { t.remove("clip.projector_type"); }));
    expect_in("the square", refused([](GgufWriter& t) { t.number("clip.vision.image_size", 112); }));
    expect_in("has 2 values; there are three channels",
              refused([](GgufWriter& t) { t.reals("clip.vision.image_mean", {0.5f, 0.5f}); }));
    expect_in("clip.vision.image_std[1] is 0",
              refused([](GgufWriter& t) { t.reals("clip.vision.image_std", {0.5f, 0.0f, 0.5f}); }));
    expect_in("clip.vision.image_max_pixels is 100, fewer than the least",
              refused([](GgufWriter& t) { t.number("clip.vision.image_max_pixels", 100); }));
}

TEST_F(Mmproj, WhatWouldChangeTheArithmeticIsRefused) {
    expect_in("clip.use_gelu must be true", refused([](GgufWriter& t) { t.flag("clip.use_gelu", false); }));
    expect_in("clip.use_silu must be false", refused([](GgufWriter& t) { t.flag("clip.use_silu", true); }));
    expect_in("clip.has_audio_encoder must be false",
              refused([](GgufWriter& t) { t.flag("clip.has_audio_encoder", true); }));
    expect_in("clip.has_vision_encoder must be true",
              refused([](GgufWriter& t) { t.flag("clip.has_vision_encoder", false); }));
    expect_in("layer_norm_epsilon must be 1e-06",
              refused([](GgufWriter& t) { t.real("clip.vision.attention.layer_norm_epsilon", 1e-5f); }));
    expect_in("clip.vision.is_deepstack_layers names layers whose output goes into the text",
              refused([](GgufWriter& t) { t.flags("clip.vision.is_deepstack_layers", {false, true}); }));
    expect_in("is_deepstack_layers\" is too long", refused([](GgufWriter& t) {
                  t.flags("clip.vision.is_deepstack_layers", std::vector<bool>(5000, true));
              }));
    expect_in("clip.vision.window_size is not known of such towers and may change what is computed",
              refused([](GgufWriter& t) { t.number("clip.vision.window_size", 8); }));
    EXPECT_EQ(refused([](GgufWriter& t) { t.number("clip.vision.window_size", 0); }), "");  // says: none
    EXPECT_EQ(refused([](GgufWriter& t) { t.text("general.name", "Window 8"); }), "");
}

TEST_F(Mmproj, TensorsThatAreMissingLeftOverOrMisshapenAreNamed) {
    for (const char* name : {"v.patch_embd.weight", "v.patch_embd.weight.1", "v.patch_embd.bias",
                             "v.position_embd.weight", "v.post_ln.bias", "mm.0.weight", "mm.2.bias",
                             "v.blk.1.ln1.weight", "v.blk.0.attn_qkv.bias", "v.blk.1.ffn_down.weight"})
        expect_in("the tensor " + std::string(name) + " is missing",
                  refused([&](GgufWriter& t) { t.remove_tensor(name); }));
    const auto with = [&](const char* name, std::vector<std::uint64_t> shape) {
        return refused([&](GgufWriter& t) {
            std::size_t values = 1;
            for (const std::uint64_t extent : shape) values *= extent;
            t.remove_tensor(name);
            t.floats(name, ElementType::f32, shape, std::vector<float>(values));
        });
    };
    expect_in("the tensor \"v.deepstack.0.norm.weight\" is not known",
              with("v.deepstack.0.norm.weight", {64}));
    expect_in("the tensor \"v.blk.2.ln1.weight\" is not known", with("v.blk.2.ln1.weight", {64}));
    expect_in("the tensor \"token_embd.weight\" is not known", with("token_embd.weight", {64}));
    expect_in("that this model does not know", with("model.visual.more", {64}));
    expect_in("has the shape", with("mm.2.weight", {32, 256}));
    expect_in("has the shape", with("v.patch_embd.weight", {64, 4, 16, 16}));
    expect_in("has the shape", with("v.patch_embd.weight.1", {64, 3, 16}));
    expect_in("has the shape", with("v.patch_embd.weight", {64}));
    expect_in("has the shape", with("v.blk.1.ln2.bias", {}));
    expect_in("the square of their quotient", with("v.position_embd.weight", {}));
    expect_in("the square of their quotient", with("v.position_embd.weight", {63, 64}));
}

TEST_F(Mmproj, MeansAndDeviationsAreTheModelsAndNeverClips) {
    const Json half = Json::array({0.5, 0.5, 0.5});
    const std::vector<float> clip_mean{0.48145466f, 0.4578275f, 0.40821073f},
        clip_std{0.26862954f, 0.26130258f, 0.27577711f};
    const auto expect_half = [&](const std::function<void(GgufWriter&)>& change) {
        const Json says = preparation(change);
        EXPECT_EQ(says["image_mean"], half);
        EXPECT_EQ(says["image_std"], half);
    };
    expect_half([](GgufWriter&) {});
    expect_half([](GgufWriter& t) { t.remove("clip.vision.image_mean"); });
    expect_half([&](GgufWriter& t) {
        t.reals("clip.vision.image_mean", clip_mean).reals("clip.vision.image_std", clip_std);
    });
    expect_half([&](GgufWriter& t) { t.reals("clip.vision.image_std", clip_std); });
    const Json own =
        preparation([](GgufWriter& t) { t.reals("clip.vision.image_mean", {0.25f, 0.5f, 0.75f}); });
    EXPECT_EQ(own["image_mean"], Json::array({0.25, 0.5, 0.75}));
}

TEST_F(Mmproj, ImagesArePreparedAsTheFolderSays) {
    const Json says = preparation([](GgufWriter&) {}),
               folder = read_golden_json("qwen3_5-vision/preprocessor_config.json");
    EXPECT_EQ(says["patch_size"], folder["patch_size"]);
    EXPECT_EQ(says["merge_size"], folder["merge_size"]);
    EXPECT_EQ(says["temporal_patch_size"], folder["temporal_patch_size"]);
    EXPECT_EQ(says["min_pixels"], folder["size"]["shortest_edge"]);
    EXPECT_EQ(says["max_pixels"], folder["size"]["longest_edge"]);
    const Json without = preparation([](GgufWriter& t) {
        t.remove("clip.vision.image_min_pixels");
        t.remove("clip.vision.image_max_pixels");
    });
    EXPECT_EQ(without["min_pixels"], 65536);
    EXPECT_EQ(without["max_pixels"], 16777216);
}

TEST_F(Mmproj, TheFuzzersCorpusHoldsOneThatIsTaken) {
    Checkpoint model = *open_model(model_);
    model.config = std::make_shared<const Json>(Json{{"hidden_size", 4}, {"image_token_id", 1}});
    const auto tower = open_tower(model, KAPITSA_SOURCE_DIR "/tests/fuzz/corpus/gguf/mmproj.gguf");
    EXPECT_TRUE(tower) << tower.error().message;
}

TEST_F(Mmproj, AModelThatHoldsATowerInWordsOfItsOwnMayBeGivenOne) {
    GgufWriter model = gguf_of(source, ElementType::f32);
    add_vocabulary(model, source);
    model.floats("v.blk.0.something.weight", ElementType::f32, {1}, {1.0f});
    model.floats("mm.5.weight", ElementType::f32, {1}, {1.0f}).write(model_);
    EXPECT_EQ(refused([](GgufWriter&) {}), "");
    EXPECT_TRUE(seen_by(mmproj_of(source, ElementType::f32)) == seen_by(ModelCase(vision_folder)));
}

}  // namespace
}  // namespace kapitsa

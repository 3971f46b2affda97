#include "cli/towers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <filesystem>

#include "cli/command.h"
#include "cli/gguf_models.h"
#include "cli/load.h"
#include "cli/models.h"
#include "model/gguf_dialect.h"
#include "support/checkpoint_writer.h"
#include "support/gguf_model.h"

namespace kapitsa {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr const char* source = "qwen3_5-vision";
constexpr ElementType f32 = ElementType::f32, f16 = ElementType::f16, bf16 = ElementType::bf16,
                      q8_0 = ElementType::q8_0;

/// A model that can be shown images, and what lies beside it.
class Towers : public testing::Test {
protected:
    Towers() { ::setenv("KAPITSA_MODELS", (folder_.path() + "/models").c_str(), 1); }
    ~Towers() override { ::unsetenv("KAPITSA_MODELS"); }

    std::string path(const std::string& name) const { return folder_.path() + "/" + name; }
    std::string add_model(const std::string& name, ElementType type = f32) const {
        GgufWriter writer = gguf_of(source, type);
        TokenizerDescription words;
        for (int byte = 0; byte < 256; ++byte) words.pieces.emplace_back(1, static_cast<char>(byte));
        AddedToken pad;
        pad.id = 502;
        pad.content = "<|image_pad|>";
        pad.special = true;
        words.added.push_back(pad);
        add_tokenizer(writer, words, "qwen35");
        writer.text("tokenizer.chat_template",
                    "{% for message in messages %}{% if message.content is string %}{{ message.content }}"
                    "{% else %}{% for part in message.content %}{% if part.type == 'image' %}<|image_pad|>"
                    "{% else %}{{ part.text }}{% endif %}{% endfor %}{% endif %}{% endfor %}");
        writer.write(path(name));
        return path(name);
    }
    std::string add_tower(const std::string& name, ElementType type = f32, std::uint32_t width = 64) const {
        GgufWriter writer = mmproj_of(source, type);
        writer.number("clip.vision.projection_dim", width).write(path(name));
        return path(name);
    }
    /// The name of the tower that is chosen, or why there is none.
    std::string chosen(const std::string& model, const std::string& wanted = "") const {
        const auto choice = choose_tower(*open_model(model), wanted);
        if (!choice) return choice.error().message;
        return choice->tower ? fs::path(choice->tower->path).filename().string() : choice->refused;
    }
    static int run(const Command& command, std::vector<const char*> words) {
        const std::array commands{&command};
        words.insert(words.begin(), {"kapitsa", command.name});
        return run_command_line(commands, int(words.size()), words.data());
    }

    const TemporaryFolder folder_;
};

TEST_F(Towers, TheOneBesideTheModelIsTaken) {
    const std::string model = add_model("model.gguf");
    EXPECT_EQ(chosen(model), "");
    for (const char* name : {"mmproj-model.gguf", "model-mmproj.gguf", "MMPROJ.gguf", "model.mmproj"}) {
        add_tower(name);
        EXPECT_EQ(chosen(model), name);
        EXPECT_EQ(chosen(model, "off"), "");
        fs::remove(path(name));
    }
}

TEST_F(Towers, OfSeveralTheTypesDecide) {
    const std::string full = add_model("full.gguf", f32), half = add_model("half.gguf", f16),
                      narrow = add_model("narrow.gguf", q8_0);
    for (const auto& [name, type] :
         {std::pair("mmproj-a.gguf", f32), {"mmproj-b.gguf", bf16}, {"mmproj-c.gguf", q8_0}})
        add_tower(name, type);
    EXPECT_EQ(chosen(full), "mmproj-a.gguf");
    EXPECT_EQ(chosen(half), "mmproj-b.gguf");
    EXPECT_EQ(chosen(narrow), "mmproj-c.gguf");
    fs::remove(path("mmproj-c.gguf"));
    EXPECT_EQ(chosen(narrow), "mmproj-b.gguf");
    auto model = open_model(half);
    EXPECT_EQ(*give_tower(*model, ""),
              "it is shown images by mmproj-b.gguf (2 lie beside it: --mmproj FILE takes another)");
}

TEST_F(Towers, OfSeveralTheNameDecidesBeforeTheTypes) {
    const std::string model = add_model("Some-Model-9B-Q8_0.gguf", q8_0);
    add_tower("mmproj-Some-Model-27B-Q8_0.gguf", q8_0);
    add_tower("mmproj-some-model-9b-f16.gguf", f16);
    add_tower("mmproj-Other.gguf", bf16);
    EXPECT_EQ(chosen(model), "mmproj-some-model-9b-f16.gguf");
}

TEST_F(Towers, OneThatDoesNotFitIsPassedOverAndNamed) {
    const std::string model = add_model("model.gguf");
    add_tower("mmproj-a.gguf", f32, 128);
    EXPECT_THAT(chosen(model), HasSubstr("mmproj-a.gguf: it belongs to another model: metadata: "
                                         "clip.vision.projection_dim is 128"));
    auto opened = open_model(model);
    EXPECT_EQ(*give_tower(*opened, ""), "");
    EXPECT_THAT(opened->blind_because,
                HasSubstr(" is not taken: mmproj-a.gguf: it belongs to another model"));
    add_tower("mmproj-b.gguf");
    EXPECT_EQ(chosen(model), "mmproj-b.gguf");
    EXPECT_THAT(chosen(model, path("mmproj-a.gguf")), HasSubstr("it belongs to another model"));
    EXPECT_THAT(chosen(model, path("mmproj-z.gguf")), HasSubstr("mmproj-z.gguf"));
}

TEST_F(Towers, AModelIsLoadedWithItsTowerAndSaysWhy) {
    LoadOptions options;
    options.model = add_model("model.gguf");
    auto loaded = load_model(options);
    ASSERT_TRUE(loaded) << loaded.error().message;
    EXPECT_EQ(loaded->service->blind_because(), "the model has no vision tower");
    options.mmproj = add_tower("eyes.gguf");
    loaded = load_model(options);
    ASSERT_TRUE(loaded) << loaded.error().message;
    EXPECT_EQ(loaded->service->blind_because(), "");
    EXPECT_EQ(loaded->told_of_tower, "it is shown images by eyes.gguf");
    GgufWriter broken = mmproj_of(source, f32);
    broken.remove_tensor("mm.2.weight");
    broken.floats("mm.2.weight", f32, {64, 64}, std::vector<float>(4096)).write(path("eyes.gguf"));
    loaded = load_model(options);
    ASSERT_FALSE(loaded);
    EXPECT_THAT(loaded.error().message, HasSubstr("eyes.gguf: the model's vision tower cannot be used: "));
    options.mmproj = "off";
    EXPECT_TRUE(load_model(options));
}

TEST_F(Towers, ChatShowsAnImageToAGgufModel) {
    const std::string model = add_model("model.gguf");
    const char* image = KAPITSA_SOURCE_DIR "/tests/data/goldens/qwen3_5-vision/image_0.png";
    const std::vector<const char*> asks{"-m",           model.c_str(), "--image",    image,
                                        "--max-tokens", "2",           "What is it?"};
    EXPECT_EQ(run(chat, asks), exit_code(Fault::unsupported));  // no tower yet
    add_tower("mmproj.gguf", q8_0);
    EXPECT_EQ(run(chat, asks), 0);
}

TEST_F(Towers, ImportTakesItAlongRmRemovesItAndListCountsIt) {
    const std::string model = add_model("model.gguf"), kept = path("models/clever/mmproj-clever.gguf");
    fs::create_directory(path("models"));
    const std::string tower = add_tower("mmproj-model.gguf"), other = add_tower("eyes.gguf", q8_0),
                      wrong = add_tower("wrong.gguf", f32, 128);
    ASSERT_EQ(run(import_command, {model.c_str(), "--name", "clever"}), 0);
    EXPECT_TRUE(fs::equivalent(kept, tower));
    EXPECT_EQ(chosen(find_model("clever")->path), "mmproj-clever.gguf");
    testing::internal::CaptureStdout();
    ASSERT_EQ(run(list, {}), 0);
    const std::string listed = testing::internal::GetCapturedStdout();
    char size[32];
    std::snprintf(size, sizeof size, " %.1f MB  ", double(fs::file_size(model) + fs::file_size(tower)) / 1e6);
    EXPECT_THAT(listed, HasSubstr(size));
    ASSERT_EQ(run(rm, {"clever"}), 0);
    EXPECT_FALSE(fs::exists(path("models/clever")));
    EXPECT_TRUE(fs::exists(tower));

    ASSERT_EQ(run(import_command, {model.c_str(), other.c_str(), "--name", "clever", "--copy"}), 0);
    EXPECT_EQ(fs::file_size(kept), fs::file_size(other));
    ASSERT_EQ(run(rm, {"clever"}), 0);
    ASSERT_EQ(run(import_command, {model.c_str(), "--mmproj", "off", "--name", "clever"}), 0);
    EXPECT_FALSE(fs::exists(kept));
    fs::copy_file(other, kept);  // somebody's own: rm leaves it
    ASSERT_EQ(run(rm, {"clever"}), 0);
    EXPECT_TRUE(fs::exists(kept));
    fs::remove_all(path("models/clever"));

    EXPECT_EQ(run(import_command, {model.c_str(), wrong.c_str()}), exit_code(Fault::invalid_input));
    EXPECT_EQ(run(import_command, {model.c_str(), model.c_str()}), exit_code(Fault::invalid_input));
    EXPECT_EQ(run(import_command, {tower.c_str()}), exit_code(Fault::unsupported));
    EXPECT_EQ(run(import_command, {model.c_str(), tower.c_str(), other.c_str()}),
              exit_code(Fault::invalid_input));
    EXPECT_TRUE(fs::is_empty(path("models")));
}

TEST_F(Towers, ATowerThatCannotBeUsedDoesNotKeepAModelFromBeingImported) {
    const std::string model = add_model("model.gguf");
    GgufWriter broken = mmproj_of(source, f32);
    broken.remove_tensor("mm.2.weight");
    broken.floats("mm.2.weight", f32, {64, 64}, std::vector<float>(4096)).write(path("mmproj.gguf"));
    ASSERT_EQ(run(import_command, {model.c_str(), "--name", "clever"}), 0);
    EXPECT_FALSE(fs::exists(path("models/clever/mmproj-clever.gguf")));
}

}  // namespace
}  // namespace kapitsa

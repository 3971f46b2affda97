#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

#include "cli/command.h"
#include "cli/gguf_models.h"
#include "cli/models.h"
#include "cli/ollama.h"
#include "cli/store.h"
#include "support/checkpoint_writer.h"
#include "support/gguf_model.h"
#include "support/gguf_writer.h"

namespace kapitsa {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

/// A models folder of our own, and a folder of downloads beside it.
class Import : public testing::Test {
protected:
    void SetUp() override {
        for (const char* variable : {"KAPITSA_MODELS", "OLLAMA_MODELS"}) {
            const char* value = std::getenv(variable);
            before_.emplace_back(variable, value ? std::optional<std::string>(value) : std::nullopt);
        }
        ::setenv("KAPITSA_MODELS", models_.c_str(), 1);
        fs::create_directory(downloads_);
        fs::create_directory(models_);
    }
    void TearDown() override {
        for (const auto& [variable, value] : before_)
            value ? ::setenv(variable.c_str(), value->c_str(), 1) : ::unsetenv(variable.c_str());
    }
    static void write(const fs::path& path, const std::string& text) {
        fs::create_directories(path.parent_path());
        std::ofstream(path, std::ios::binary) << text;
    }
    /// A real model of the golden's weights, with a tokenizer of bytes.
    static GgufWriter model(const std::string& golden = "qwen3_5-dense") {
        GgufWriter writer = gguf_of(golden, ElementType::f32);
        TokenizerDescription bytes;
        for (int byte = 0; byte < 256; ++byte) bytes.pieces.emplace_back(1, static_cast<char>(byte));
        add_tokenizer(writer, bytes, "qwen35");
        return writer;
    }
    static int run(std::vector<const char*> words) {
        const std::array commands{&import_command, &rm};
        words.insert(words.begin(), "kapitsa");
        return run_command_line(commands, int(words.size()), words.data());
    }

    const TemporaryFolder folder_;
    const fs::path models_ = fs::path(folder_.path()) / "models";
    const fs::path downloads_ = fs::path(folder_.path()) / "downloads";

private:
    std::vector<std::pair<std::string, std::optional<std::string>>> before_;
};

TEST_F(Import, AFileIsLinkedFoundAndRemovedWithoutTouchingTheOriginal) {
    const std::string file = (downloads_ / "some model.gguf").string();
    model().write(file);
    ASSERT_EQ(run({"import", file.c_str()}), 0);
    const auto found = find_model("some-model");
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_TRUE(fs::equivalent(found->path, file));
    EXPECT_EQ(found->weight_bytes, fs::file_size(file));
    EXPECT_EQ(run({"import", file.c_str()}), exit_code(Fault::invalid_input));  // the name is taken
    EXPECT_EQ(run({"import", file.c_str(), "--name", "other", "--copy"}), 0);
    EXPECT_FALSE(fs::equivalent(find_model("other")->path, file));
    ASSERT_EQ(run({"rm", "some-model"}), 0);
    EXPECT_FALSE(find_model("some-model"));
    EXPECT_TRUE(fs::exists(file));
    EXPECT_EQ(run({"rm", "some-model"}), exit_code(Fault::invalid_input));
}

TEST_F(Import, EveryFamilyIsCheckedAndFound) {
    for (const std::string golden : {"qwen3_5-moe", "qwen4_exp", "nemotron_h-moe", "dory", "flint"}) {
        const std::string file = (downloads_ / (golden + ".gguf")).string();
        GgufWriter writer = model(golden);
        writer.write(file);
        EXPECT_EQ(run({"import", file.c_str(), "--name", "whole"}), 0) << golden;
        EXPECT_TRUE(find_model("whole")) << golden;
        EXPECT_EQ(run({"rm", "whole"}), 0) << golden;
        writer.floats("blk.0.extra.weight", ElementType::f32, {1}, {1.0f}).write(file);
        EXPECT_EQ(run({"import", file.c_str(), "--name", "odd"}), exit_code(Fault::unsupported)) << golden;
        EXPECT_FALSE(find_model("odd")) << golden;
    }
}

TEST_F(Import, RmRemovesWhatImportMadeAndNothingElse) {
    const std::string file = (downloads_ / "a.gguf").string();
    model().write(file);
    ASSERT_EQ(run({"import", file.c_str()}), 0);
    write(models_ / "a/thesis.txt", "years of work");
    EXPECT_EQ(run({"rm", "a"}), 0);
    EXPECT_FALSE(find_model("a"));
    EXPECT_TRUE(fs::exists(models_ / "a/thesis.txt"));
}

TEST_F(Import, TheBuiltInModelKeepsItsNameAndItsPlace) {
    const std::string file = (downloads_ / "a.gguf").string();
    model().write(file);
    EXPECT_EQ(run({"import", file.c_str(), "--name", "tiny"}), exit_code(Fault::invalid_input));
    EXPECT_FALSE(fs::exists(models_ / "tiny"));
    const Status removed = remove_model("tiny");
    ASSERT_FALSE(removed);
    EXPECT_THAT(removed.error().message, HasSubstr("built-in model"));
}

TEST_F(Import, AModelThatWasReferredToAndIsGoneIsNamedWithTheNextStep) {
    fs::create_directories(models_ / "moved");
    fs::create_symlink(downloads_ / "moved.gguf", models_ / "moved/moved.gguf");
    const auto found = find_model("moved");
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_EQ(lost_file(*found), (downloads_ / "moved.gguf").string());
    model().write((downloads_ / "moved.gguf").string());
    EXPECT_EQ(lost_file(*found), "");
}

TEST_F(Import, PartsStayTogether) {
    model().write_parts((downloads_ / "cut").string(), 3);
    ASSERT_EQ(run({"import", (downloads_ / "cut-00002-of-00003.gguf").c_str()}), 0);
    const auto found = find_model("cut");
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_EQ(fs::path(found->path).filename(), "cut-00001-of-00003.gguf");
    EXPECT_TRUE(fs::exists(models_ / "cut/cut-00003-of-00003.gguf"));
}

TEST_F(Import, AFileThatWouldNotLoadIsNotImported) {
    GgufWriter writer = model();
    writer.floats("blk.0.extra.weight", ElementType::f32, {1}, {1.0f});
    writer.write((downloads_ / "bad.gguf").string());
    EXPECT_EQ(run({"import", (downloads_ / "bad.gguf").c_str()}), exit_code(Fault::unsupported));
    write(downloads_ / "none.gguf", "no model at all");
    EXPECT_EQ(run({"import", (downloads_ / "none.gguf").c_str()}), exit_code(Fault::invalid_input));
    EXPECT_EQ(run({"import"}), exit_code(Fault::invalid_input));
    EXPECT_TRUE(fs::is_empty(models_));
}

TEST_F(Import, AFolderIsItsOneModelWithoutTheVisionTower) {
    model().write((downloads_ / "a.gguf").string());
    write(downloads_ / "mmproj-a.gguf", "GGUF");
    EXPECT_THAT(gguf_models_in(downloads_), ElementsAre((downloads_ / "a.gguf").string()));
    EXPECT_THAT(vision_towers_beside((downloads_ / "a.gguf").string()),
                ElementsAre((downloads_ / "mmproj-a.gguf").string()));
    EXPECT_EQ(run({"import", downloads_.c_str(), "--name", "mine"}), 0);
    EXPECT_TRUE(find_model("mine"));
    write(downloads_ / "b.gguf", "GGUF");
    EXPECT_EQ(run({"import", downloads_.c_str()}), exit_code(Fault::invalid_input));  // which of them?
}

TEST_F(Import, OllamasManifestsLeadToTheirBlob) {
    const fs::path root = fs::path(folder_.path()) / "ollama";
    ::setenv("OLLAMA_MODELS", root.c_str(), 1);
    const fs::path manifest = root / "manifests/registry.ollama.ai/library/clever/4b";
    write(manifest, R"({"schemaVersion": 2, "layers": [
        {"mediaType": "application/vnd.ollama.image.license", "digest": "sha256:aa"},
        {"mediaType": "application/vnd.ollama.image.projector", "digest": "sha256:4567"},
        {"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:0123abcd"}]})");
    fs::create_directories(root / "blobs");
    model().write((root / "blobs/sha256-0123abcd").string());
    for (const std::string& wanted : {std::string("ollama:clever:4b"), manifest.string()}) {
        const auto found = find_ollama_model(wanted);
        ASSERT_TRUE(found) << found.error().message;
        EXPECT_EQ(found->name, "clever-4b");
        EXPECT_EQ(found->blob, (root / "blobs/sha256-0123abcd").string());
        EXPECT_EQ(found->tower, (root / "blobs/sha256-4567").string());
    }
    ASSERT_EQ(run({"import", "ollama:clever:4b"}), 0);
    EXPECT_TRUE(find_model("clever-4b"));
    for (const char* wanted : {"ollama:../../etc:x", "ollama:a/b/c", "ollama:", "ollama:clever:../4b"})
        EXPECT_THAT(find_ollama_model(wanted).error().message, HasSubstr("is no name of an Ollama model"));
    write(manifest, R"({"layers": [{"mediaType": "application/vnd.ollama.image.model",
                                    "digest": "sha256:../../../etc/passwd"}]})");
    EXPECT_THAT(find_ollama_model("ollama:clever:4b").error().message, HasSubstr("no layer is a model"));
}

TEST_F(Import, OnlyWhatWasImportedIsRemoved) {
    write(models_ / "mine/config.json", "{}");
    const auto refused = remove_model("mine");
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().message, HasSubstr("was not made by kapitsa import"));
    EXPECT_TRUE(fs::exists(models_ / "mine/config.json"));
    for (const char* name : {"..", "../downloads", "", ".hidden", "a/b"})
        EXPECT_THAT(remove_model(name).error().message, HasSubstr("is no name for a model")) << name;
}

TEST_F(Import, AFileNeedsNoImportToBeUsed) {
    const std::string file = (downloads_ / "plain.gguf").string();
    model().write(file);
    const auto found = find_model(file);
    ASSERT_TRUE(found) << found.error().message;
    EXPECT_EQ(found->name, "plain");
    EXPECT_EQ(found->path, file);
    fs::copy_file(file, models_ / "plain.gguf");  // dropped among the models, it has a name
    EXPECT_EQ(find_model("plain")->path, (models_ / "plain.gguf").string());
    std::vector<std::string> names;
    for (const ModelFolder& model : all_models()) names.push_back(model.name);
    EXPECT_THAT(names, ElementsAre("tiny", "plain"));
}

}  // namespace
}  // namespace kapitsa

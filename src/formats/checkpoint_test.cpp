#include "formats/checkpoint.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace kapitsa {
namespace {

namespace fs = std::filesystem;

/// A model folder that lives as long as a test.
class CheckpointFolder : public testing::Test {
protected:
    CheckpointFolder() {
        std::string name = (fs::temp_directory_path() / "kapitsa_checkpoint_XXXXXX").string();
        folder = ::mkdtemp(name.data());
        write("config.json", "{\"model_type\":\"qwen3_5\"}");
    }
    ~CheckpointFolder() override { fs::remove_all(folder); }

    std::string path(const std::string& name) const { return folder + "/" + name; }
    void write(const std::string& name, std::string_view text) const {
        std::ofstream(path(name), std::ios::binary) << text;
    }

    /// A file with one byte for each of these tensors.
    void write_weights(const std::string& name, const std::vector<std::string>& tensors) const {
        std::string header = "{";
        for (std::size_t i = 0; i < tensors.size(); ++i)
            header += (i ? ",\"" : "\"") + tensors[i] + R"(":{"dtype":"U8","shape":[1],"data_offsets":[)" +
                      std::to_string(i) + "," + std::to_string(i + 1) + "]}";
        header += "}";
        std::string length(8, '\0');
        const std::uint64_t bytes = header.size();
        std::memcpy(length.data(), &bytes, 8);
        write(name, length + header + std::string(tensors.size(), 'w'));
    }
    void write_index(std::string_view map) const {
        write("model.safetensors.index.json", "{\"metadata\":{},\"weight_map\":" + std::string(map) + "}");
    }

    std::string refusal() const {
        const auto checkpoint = open_checkpoint(folder);
        if (checkpoint) return "accepted";
        std::string message = checkpoint.error().message;
        for (std::size_t at; (at = message.find(folder)) != message.npos;)
            message.replace(at, folder.size(), "F");
        return message;
    }

    std::string folder;
};

constexpr const char* holds = "; a model folder holds config.json, tokenizer.json and model*.safetensors";

TEST(OpenCheckpoint, TheBuiltInModelOpensWithAllItHas) {
    const auto model = open_checkpoint(std::string(KAPITSA_SOURCE_DIR) + "/models/tiny");
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ(model->config->at("model_type"), "qwen3_5");
    EXPECT_EQ(model->generation_config->at("top_k"), 20);
    EXPECT_NE(model->chat_template.find("<|im_start|>"), std::string::npos);
    EXPECT_EQ(model->token_text("eos_token"), "<|im_end|>");
    EXPECT_EQ(model->token_text("no_such_token"), "");
    EXPECT_EQ(model->files.size(), 1u);
    const auto embedding = model->tensors.find("language_model.model.embed_tokens.weight");
    ASSERT_NE(embedding, model->tensors.end());
    EXPECT_EQ(embedding->second.type, ElementType::u32);
    EXPECT_EQ(embedding->second.shape, (std::vector<std::uint64_t>{8192, 32}));
    EXPECT_LT(model->weight_bytes(), model->files[0].bytes().size());
    EXPECT_GT(model->weight_bytes(), 9'000'000u);
    const auto tokenizer = model->tokenizer();
    ASSERT_TRUE(tokenizer);
    EXPECT_EQ(tokenizer->added.size(), 27u);
}

TEST(OpenCheckpoint, AFolderThatIsNoneSaysWhatAModelFolderHolds) {
    const auto why = [](const std::string& folder) { return open_checkpoint(folder).error().message; };
    EXPECT_EQ(why("/no/such"), std::string("there is no folder /no/such") + holds);
    EXPECT_EQ(
        why(KAPITSA_SOURCE_DIR "/src/formats/checkpoint_test.cpp"),
        std::string(KAPITSA_SOURCE_DIR "/src/formats/checkpoint_test.cpp") + " is not a folder" + holds);
}

TEST_F(CheckpointFolder, SaysWhichFileIsMissing) {
    EXPECT_EQ(refusal(), std::string("F has no model*.safetensors") + holds);
    fs::remove(path("config.json"));
    EXPECT_EQ(refusal(), std::string("F has no config.json") + holds);
}

TEST_F(CheckpointFolder, NeedsNothingButConfigAndWeights) {
    write_weights("model.safetensors", {"a", "b"});
    const auto model = open_checkpoint(folder);
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ(model->generation_config, nullptr);
    EXPECT_EQ(model->tokenizer_config, nullptr);
    EXPECT_EQ(model->chat_template, "");
    EXPECT_EQ(model->token_text("eos_token"), "");
    EXPECT_EQ(model->weight_bytes(), 2u);
    ASSERT_FALSE(model->tokenizer());
    EXPECT_NE(model->tokenizer().error().message.find("has no tokenizer.json; a model folder holds"),
              std::string::npos);
}

TEST_F(CheckpointFolder, AModuleThatDraftsMayLieBesideTheModel) {
    write_weights("model.safetensors", {"a"});
    fs::create_directory(path("mtp"));
    write_weights("mtp/weights.safetensors", {"fc.weight", "norm.weight"});
    write_weights("mtp.safetensors", {"language_model.mtp.x", "y"});
    const auto model = open_checkpoint(folder);
    ASSERT_TRUE(model) << model.error().message;
    for (const char* tensor : {"a", "mtp.fc.weight", "mtp.norm.weight", "language_model.mtp.x", "y"})
        EXPECT_TRUE(model->tensors.contains(tensor)) << tensor;
    EXPECT_EQ(model->tensors.size(), 5u);
}

TEST_F(CheckpointFolder, WithoutAnIndexEveryModelFileIsTaken) {
    write_weights("model-00001-of-00002.safetensors", {"a"});
    write_weights("model-00002-of-00002.safetensors", {"b", "c"});
    write_weights("draft.safetensors", {"a"});
    const auto model = open_checkpoint(folder);
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ(model->tensors.size(), 3u);
    write_weights("model-extra.safetensors", {"c"});
    EXPECT_EQ(refusal(),
              "F/model-extra.safetensors: tensor \"c\" stands in another file of the model as well");
}

TEST_F(CheckpointFolder, AnIndexChoosesTheShardsAndIsHeldToItsWord) {
    write_weights("model-1.safetensors", {"a"});
    write_weights("model-2.safetensors", {"b"});
    write_weights("model-old.safetensors", {"a", "b"});
    write_index(R"({"a":"model-1.safetensors","b":"model-2.safetensors"})");
    const auto model = open_checkpoint(folder);
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ(model->files.size(), 2u);
    EXPECT_EQ(model->tensors.at("b").bytes.data(), &model->files[1].bytes().back());

    write_index(R"({"a":"model-2.safetensors","b":"model-1.safetensors"})");
    EXPECT_EQ(refusal(),
              "F/model-1.safetensors lacks tensor \"b\", which model.safetensors.index.json says it holds");
    write_index(R"({"a":"model-1.safetensors","c":"model-2.safetensors"})");
    EXPECT_EQ(refusal(),
              "F/model-2.safetensors lacks tensor \"c\", which model.safetensors.index.json says it holds");
    write_index(R"({"a":"model-1.safetensors","b":"model-2.safetensors","a":"model-2.safetensors"})");
    EXPECT_NE(refusal().find("the key \"a\" stands twice"), std::string::npos);
    write_index(R"({"a":"model-3.safetensors"})");
    EXPECT_EQ(refusal(), "F/model-3.safetensors: No such file or directory");
    write_index("{}");
    EXPECT_EQ(refusal(), "F/model.safetensors.index.json: weight_map is missing, empty, or not an object");
    write_index(R"({"a":1})");
    EXPECT_EQ(refusal(), "F/model.safetensors.index.json: weight_map of \"a\" is not a string");
}

TEST_F(CheckpointFolder, AnIndexCannotLeadOutOfTheFolder) {
    for (const char* name : {"../x.safetensors", "/etc/x.safetensors", "a\\\\b.safetensors", "..safetensors",
                             "config.json", "", "a\\u0000.safetensors"}) {
        write_index(std::string("{\"a\":\"") + name + "\"}");
        EXPECT_NE(refusal().find("not the name of a safetensors file in the same folder"), std::string::npos)
            << name << ": " << refusal();
    }
}

TEST_F(CheckpointFolder, WeightErrorsNameTheFile) {
    write("model.safetensors", "short");
    EXPECT_EQ(refusal().substr(0, 41), "F/model.safetensors: the file has 5 bytes");
    write("model.safetensors", "");
    EXPECT_EQ(refusal(), "F/model.safetensors is empty");
    fs::remove(path("model.safetensors"));
    fs::create_directory(path("model.safetensors"));
    EXPECT_EQ(refusal(), "F/model.safetensors is not a regular file");
    fs::remove(path("model.safetensors"));
    ASSERT_EQ(::mkfifo(path("model.safetensors").c_str(), 0600), 0);
    EXPECT_EQ(refusal(), "F/model.safetensors is not a regular file");
    fs::remove(path("model.safetensors"));
    write_weights("model.safetensors", {});
    EXPECT_EQ(refusal(), "F: its safetensors files hold no tensor");
}

TEST_F(CheckpointFolder, LinksAreFollowedAndALinkToNothingIsAnError) {
    write_weights("blob", {"a"});
    fs::create_symlink("blob", path("model.safetensors"));
    EXPECT_EQ(refusal(), "accepted");
    fs::create_symlink("gone", path("chat_template.jinja"));
    EXPECT_EQ(refusal(), "F/chat_template.jinja: No such file or directory");
}

TEST_F(CheckpointFolder, ConfigsAreObjectsOfABoundedSize) {
    write_weights("model.safetensors", {"a"});
    write("generation_config.json", "[1]");
    EXPECT_EQ(refusal(), "F/generation_config.json is not a JSON object");
    fs::remove(path("generation_config.json"));
    write("config.json", "{\"a\":");
    EXPECT_EQ(refusal().substr(0, 29), "F/config.json: not valid JSON");
    write("config.json", "3");
    EXPECT_EQ(refusal(), "F/config.json is not a JSON object");
    write("config.json", "");
    fs::resize_file(path("config.json"), (16u << 20) + 1);
    EXPECT_EQ(refusal(), "F/config.json has 16777217 bytes; at most 16777216 are expected of such a file");
}

TEST_F(CheckpointFolder, PythonsWordsForNoNumberBecomeNull) {
    write_weights("model.safetensors", {"a"});
    write("config.json", R"({"limit":[0.0, Infinity,-Infinity],"x":NaN,"text":"\"Infinity NaN\\"})");
    const auto model = open_checkpoint(folder);
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ(dump_json(*model->config), R"({"limit":[0.0,null,null],"x":null,"text":"\"Infinity NaN\\"})");
}

TEST_F(CheckpointFolder, TheChatTemplateIsAFileOrAStringOrTheDefaultOfAList) {
    write_weights("model.safetensors", {"a"});
    const auto found = [&](std::string_view tokenizer_config) {
        write("tokenizer_config.json", tokenizer_config);
        const auto model = open_checkpoint(folder);
        return model ? model->chat_template : "refused";
    };
    EXPECT_EQ(found(R"({"chat_template":"one"})"), "one");
    EXPECT_EQ(found(R"({"chat_template":null})"), "");
    EXPECT_EQ(
        found(R"({"chat_template":[{"name":"tool_use","template":"t"},{"name":"default","template":"d"}]})"),
        "d");
    EXPECT_EQ(found(R"({"chat_template":[{"name":"tool_use","template":"t"}]})"), "refused");
    EXPECT_EQ(refusal(), "F/tokenizer_config.json: chat_template has no entry named \"default\"");
    EXPECT_EQ(found(R"({"chat_template":[3]})"), "refused");
    EXPECT_EQ(found(R"({"chat_template":3})"), "refused");
    write("chat_template.jinja", "file");
    EXPECT_EQ(found(R"({"chat_template":3})"), "file");
    write("chat_template.jinja", "\xFF");
    EXPECT_EQ(refusal(), "F/chat_template.jinja is not UTF-8");
}

TEST_F(CheckpointFolder, ATokenIsAStringOrAnObjectWithItsContent) {
    write_weights("model.safetensors", {"a"});
    write("tokenizer_config.json",
          R"({"bos_token":null,"eos_token":{"content":"<e>"},"pad_token":"<p>","x":3})");
    const auto model = open_checkpoint(folder);
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ(model->token_text("bos_token"), "");
    EXPECT_EQ(model->token_text("eos_token"), "<e>");
    EXPECT_EQ(model->token_text("pad_token"), "<p>");
    EXPECT_EQ(model->token_text("x"), "");
}

}  // namespace
}  // namespace kapitsa

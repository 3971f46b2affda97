#include "cli/models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

namespace kapitsa {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

/// A models folder of our own for the length of a test.
class Models : public testing::Test {
protected:
    void SetUp() override {
        if (const char* value = std::getenv("KAPITSA_MODELS")) before_ = value;
        root_ = fs::temp_directory_path() / ("kapitsa_models_" + std::to_string(::getpid()));
        fs::create_directories(root_);
        ::setenv("KAPITSA_MODELS", root_.c_str(), 1);
    }
    void TearDown() override {
        fs::remove_all(root_);
        if (before_)
            ::setenv("KAPITSA_MODELS", before_->c_str(), 1);
        else
            ::unsetenv("KAPITSA_MODELS");
    }
    void add(const std::string& name, std::size_t weight_bytes = 0) {
        fs::create_directories(root_ / name);
        std::ofstream(root_ / name / "config.json") << "{}";
        if (weight_bytes > 0)
            std::ofstream(root_ / name / "model.safetensors") << std::string(weight_bytes, 'w');
    }

    fs::path root_;

private:
    std::optional<std::string> before_;
};

TEST_F(Models, NoNameIsTheBuiltInModel) {
    const auto model = find_model("");
    ASSERT_TRUE(model.has_value()) << model.error().message;
    EXPECT_EQ(model->name, "tiny");
    EXPECT_TRUE(model->built_in);
    EXPECT_GT(model->weight_bytes, 1'000'000u);
}

TEST_F(Models, ANameIsLookedForInTheModelsFolder) {
    add("clever", 1000);
    const auto model = find_model("clever");
    ASSERT_TRUE(model.has_value()) << model.error().message;
    EXPECT_EQ(model->path, (root_ / "clever").string());
    EXPECT_EQ(model->weight_bytes, 1000u);
    EXPECT_FALSE(model->built_in);
}

TEST_F(Models, APathIsThatFolderHoweverItIsWritten) {
    add("clever");
    for (const std::string& path : {(root_ / "clever").string(), (root_ / "clever").string() + "/",
                                    (root_ / "clever/../clever/.").string()}) {
        const auto model = find_model(path);
        ASSERT_TRUE(model.has_value()) << model.error().message;
        EXPECT_EQ(model->name, "clever") << path;
    }
}

TEST_F(Models, AFolderHereThatIsNoModelHidesNone) {
    const fs::path before = fs::current_path();
    fs::create_directories(root_ / "here/clever");
    fs::create_directories(root_ / "here/tiny");
    add("clever");
    fs::current_path(root_ / "here");
    EXPECT_EQ(find_model("clever")->path, (root_ / "clever").string());
    EXPECT_TRUE(find_model("tiny")->built_in);
    EXPECT_FALSE(find_model("./clever"));
    fs::current_path(before);
}

TEST_F(Models, TinyIsTheBuiltInModelAndAnotherOfThatNameIsReachedByItsPath) {
    add("tiny");
    EXPECT_TRUE(find_model("tiny")->built_in);
    EXPECT_TRUE(find_model("")->built_in);
    const std::string other = (root_ / "tiny").string();
    EXPECT_FALSE(find_model(other)->built_in);
    const auto models = all_models();
    ASSERT_EQ(models.size(), 2u);
    EXPECT_EQ(models[1].name, other);
}

TEST_F(Models, WhatIsNotThereIsNamedWithTheNextStep) {
    fs::create_directories(root_ / "empty");
    for (const std::string& wanted : {std::string("nobody"), (root_ / "nobody").string()}) {
        const auto model = find_model(wanted);
        ASSERT_FALSE(model.has_value());
        EXPECT_EQ(model.error().fault, Fault::invalid_input);
        EXPECT_THAT(model.error().message, HasSubstr(wanted));
        EXPECT_THAT(model.error().message, HasSubstr("kapitsa list"));
    }
    EXPECT_THAT(find_model((root_ / "empty").string()).error().message, HasSubstr("config.json"));
}

TEST_F(Models, AFileIsNoModelAndItsFolderMayBe) {
    add("clever", 10);
    const auto inside = find_model((root_ / "clever/model.safetensors").string());
    ASSERT_FALSE(inside.has_value());
    EXPECT_THAT(inside.error().message, HasSubstr("is a file and no folder"));
    EXPECT_THAT(inside.error().message, testing::EndsWith("-m " + (root_ / "clever").string()));
    std::ofstream(root_ / "alone") << "x";
    const auto alone = find_model((root_ / "alone").string());
    ASSERT_FALSE(alone.has_value());
    EXPECT_THAT(alone.error().message, HasSubstr("is a file and no folder"));
    EXPECT_THAT(alone.error().message, HasSubstr("tokenizer.json"));
}

TEST_F(Models, APathThroughAFileSaysWhy) {
    add("clever");
    const auto model = find_model((root_ / "clever/config.json/deeper").string());
    ASSERT_FALSE(model.has_value());
    EXPECT_THAT(model.error().message, HasSubstr("clever/config.json/deeper"));
    EXPECT_THAT(model.error().message, HasSubstr("kapitsa list"));
}

TEST_F(Models, TheListHasTheBuiltInModelFirstThenTheOthersByName) {
    add("b");
    add("a");
    fs::create_directories(root_ / "no_model");
    std::vector<std::string> names;
    for (const auto& model : all_models()) names.push_back(model.name);
    EXPECT_THAT(names, testing::ElementsAre("tiny", "a", "b"));
}

TEST_F(Models, AMissingModelsFolderIsNoError) {
    ::setenv("KAPITSA_MODELS", (root_ / "not_made").c_str(), 1);
    EXPECT_EQ(all_models().size(), 1u);
}

}  // namespace
}  // namespace kapitsa

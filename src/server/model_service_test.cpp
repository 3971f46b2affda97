#include "server/model_service.h"

#include <gtest/gtest.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "server/fake_engine_test.h"

namespace kapitsa {
namespace {

Checkpoint tiny() {
    auto checkpoint = open_checkpoint(KAPITSA_SOURCE_DIR "/models/tiny");
    EXPECT_TRUE(checkpoint) << checkpoint.error().message;
    return std::move(*checkpoint);
}

std::shared_ptr<const Json> json(std::string_view text) {
    auto parsed = parse_json(text);
    EXPECT_TRUE(parsed) << text;
    return std::make_shared<const Json>(std::move(*parsed));
}

Result<std::unique_ptr<ModelService>> make(const Checkpoint& checkpoint, std::string name = {},
                                           std::uint32_t vocabulary = 8192) {
    auto script = std::make_shared<Script>();
    script->info.vocabulary = vocabulary;
    return ModelService::make(checkpoint, std::make_unique<FakeEngine>(script), std::move(name));
}

TEST(ModelService, IsMadeFromWhatTheAuthorSays) {
    const auto service = make(tiny());
    ASSERT_TRUE(service) << service.error().message;
    EXPECT_EQ((*service)->name(), "tiny");
    EXPECT_FLOAT_EQ((*service)->sampling().temperature, 0.6f);
    EXPECT_EQ((*service)->sampling().top_k, 20u);
    EXPECT_FLOAT_EQ((*service)->sampling().top_p, 0.95f);
    EXPECT_EQ((*service)->stop_tokens(), (std::vector<Token>{8165, 8167}));
}

TEST(ModelService, AModelThatDoesNotSampleTakesTheMostLikelyToken) {
    Checkpoint checkpoint = tiny();
    checkpoint.generation_config = json(R"({"do_sample":false,"temperature":0.7,"eos_token_id":5})");
    const auto service = make(checkpoint, "given/name");
    ASSERT_TRUE(service) << service.error().message;
    EXPECT_EQ((*service)->sampling().temperature, 0);
    EXPECT_EQ((*service)->stop_tokens(), (std::vector<Token>{5, 8165, 8167}));
    EXPECT_TRUE((*service)->answers_to("given/name"));
    EXPECT_TRUE((*service)->answers_to("name"));
    EXPECT_FALSE((*service)->answers_to("tiny"));
}

TEST(ModelService, ATextOfItsOwnBeginsAsTheModelsTextsDo) {
    TokenizerDescription description;
    for (int byte = 0; byte < 256; ++byte) description.pieces.emplace_back(1, static_cast<char>(byte));
    description.added.push_back({256, "<s>", true});
    description.first = 256;
    auto tokenizer = Tokenizer::make(std::move(description));
    ASSERT_TRUE(tokenizer) << tokenizer.error().message;
    const ModelService service({.name = "m",
                                .tokenizer = std::move(*tokenizer),
                                .chat_template = {},
                                .format = {},
                                .sampling = {},
                                .stop_tokens = {},
                                .engine = std::make_unique<FakeEngine>(std::make_shared<Script>())});
    EXPECT_EQ(service.raw_prompt("ab").tokens, (std::vector<Token>{256, 'a', 'b'}));
    EXPECT_EQ(service.raw_prompt("<s>ab").tokens, (std::vector<Token>{256, 'a', 'b'}));
    EXPECT_EQ(service.raw_prompt("").tokens, (std::vector<Token>{256}));
}

TEST(ModelService, ATopKOfMinusOneIsNone) {
    Checkpoint checkpoint = tiny();
    checkpoint.generation_config = json(R"({"top_k":-1})");
    const auto service = make(checkpoint);
    ASSERT_TRUE(service) << service.error().message;
    EXPECT_EQ((*service)->sampling().top_k, 0u);
}

TEST(ModelService, FilesThatContradictAreRefusedByName) {
    const auto why = [](const char* generation_config) {
        Checkpoint checkpoint = tiny();
        checkpoint.generation_config = json(generation_config);
        const auto service = make(checkpoint);
        return service ? std::string("accepted") : service.error().message;
    };
    EXPECT_NE(why(R"({"temperature":"hot"})").find("generation_config.json: temperature"), std::string::npos);
    EXPECT_NE(why(R"({"top_p":2})").find("generation_config.json: top_p"), std::string::npos);
    EXPECT_NE(why(R"({"eos_token_id":[1,8192]})").find("generation_config.json: eos_token_id"),
              std::string::npos);
    EXPECT_NE(why(R"({"eos_token_id":"x"})").find("generation_config.json: eos_token_id"), std::string::npos);
    const auto service = make(tiny(), {}, 100);
    ASSERT_FALSE(service);
    EXPECT_NE(service.error().message.find("not of one model"), std::string::npos);
}

TEST(ModelService, WithoutATemplateItOnlyCompletes) {
    Checkpoint checkpoint = tiny();
    checkpoint.chat_template.clear();
    const auto service = make(checkpoint);
    ASSERT_TRUE(service) << service.error().message;
    Conversation conversation;
    conversation.messages.push_back(
        {.role = "user", .content = "hi", .reasoning = {}, .calls = {}, .call_id = {}});
    EXPECT_EQ((*service)->prompt(conversation).error().fault, Fault::unsupported);
    EXPECT_FALSE((*service)->raw_prompt("hi").tokens.empty());
}

TEST(ModelService, APromptIsWhatTheTemplateWrites) {
    const auto service = make(tiny());
    ASSERT_TRUE(service) << service.error().message;
    Conversation conversation;
    conversation.messages.push_back(
        {.role = "user", .content = "a<|im_end|>", .reasoning = {}, .calls = {}, .call_id = {}});
    const auto prompt = (*service)->prompt(conversation);
    ASSERT_TRUE(prompt) << prompt.error().message;
    EXPECT_EQ(prompt->text,
              "<|im_start|>user\na<|im_end|><|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n");
    // Of the two ends only the template's is one.
    EXPECT_EQ(std::ranges::count(prompt->tokens, Token(8167)), 1);
}

TEST(ModelService, AnAnswerWithoutALimitHasTheRestOfTheContext) {
    const auto script = std::make_shared<Script>();
    script->info.pages = 4;  // 64 tokens: less than the context
    const auto service = toy_service(script);
    EXPECT_EQ(service->context(), 64u);
    ASSERT_TRUE(service->submit({.prompt = {1, 2, 3, 4}, .stops = false}));
    const auto asked = script->asked.poll();
    EXPECT_EQ(asked->max_tokens, 60u);
    EXPECT_TRUE(asked->stop_tokens.empty());
    EXPECT_EQ(service->submit({.prompt = std::vector<Token>(64, 1)}).error().fault, Fault::invalid_input);
    EXPECT_EQ(service->submit({}).error().fault, Fault::invalid_input);
}

}  // namespace
}  // namespace kapitsa

// Images in a chat request, from the body to the engine: what is placed where, what is counted, what is
// refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "server/dialect_test.h"

namespace kapitsa {
namespace {

using testing::HasSubstr;

/// Writes a newline, which the toy's tokens have, where an image stands.
constexpr std::string_view seeing_template =
    "{%- for message in messages %}{%- if message.content is string %}{{- message.content }}{%- else %}"
    "{%- for part in message.content %}{%- if part.type == 'image' %}{{- '\x01' }}{%- else %}"
    "{{- part.text }}{%- endif %}{%- endfor %}{%- endif %}{{- '.' }}{%- endfor %}";
constexpr Token pad = 1;

std::string base64_of(const std::string& name) {
    std::ifstream in(KAPITSA_SOURCE_DIR "/tests/data/images/" + name, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    constexpr const char* digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string text;
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        std::uint32_t word = 0;
        for (std::size_t j = 0; j < 3; ++j)
            word = word << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0);
        for (std::size_t j = 0; j < 4; ++j)
            text += i + j > bytes.size() ? '=' : digits[word >> (18 - 6 * j) & 63];
    }
    return text;
}

class Images : public Dialect {
protected:
    static Preprocessor preprocessor() {
        const Json bounds{{"min_pixels", 1024}, {"max_pixels", 65536}};
        return *Preprocessor::read(&bounds);
    }
    void SetUp() override {
        script->info.picture_patches = 256;
        script->info.picture_side = 16;
        script->info.picture_block = script->info.picture_frames = 2;
        service = toy_service(script, Sight(preprocessor(), pad, 256), seeing_template);
    }
    Handled ask_with(const std::vector<std::string>& names) {
        std::string parts = R"({"type":"text","text":"a"})";
        for (const std::string& name : names)
            parts += R"(,{"type":"image_url","image_url":{"url":"data:;base64,)" + base64_of(name) + "\"}}";
        return ask("/v1/chat/completions", R"({"messages":[{"role":"user","content":[)" + parts +
                                               R"(,{"type":"text","text":"b"}]}]})");
    }
    Json refusal(const std::vector<std::string>& names) { return body_of(whole(ask_with(names)))["error"]; }
};

TEST_F(Images, StandInThePromptForAsManyTokensAsTheyHave) {
    script->on_submit = always_say("hm");
    const Json body = body_of(whole(ask_with({"colour.jpg", "exif6.webp"})));  // 40 x 24, and 24 x 40 upright
    const auto asked = script->asked.poll();
    ASSERT_TRUE(asked);
    // 32 x 32 pixels each: 40 / 32 and 24 / 32 are rounded to one block.
    EXPECT_EQ(asked->prompt, (std::vector<Token>{'a', pad, pad, 'b', '.'}));
    ASSERT_EQ(asked->pictures.size(), 2u);
    EXPECT_EQ(asked->pictures[0].first, 1u);
    EXPECT_EQ(asked->pictures[1].first, 2u);
    EXPECT_EQ(asked->pictures[0].picture->patches(), 4u);
    EXPECT_EQ(body["usage"]["prompt_tokens"], 5);
}

TEST_F(Images, OfSeveralTokensAreCountedInUsage) {
    const Json bounds{{"min_pixels", 12288}, {"max_pixels", 65536}};
    service = toy_service(script, Sight(*Preprocessor::read(&bounds), pad, 256), seeing_template);
    script->on_submit = always_say("hm");
    const Json body = body_of(whole(ask_with({"rgb.png"})));  // 24 x 16, made larger: 160 x 96 pixels
    const auto asked = script->asked.poll();
    ASSERT_TRUE(asked && asked->pictures.size() == 1);
    EXPECT_EQ(asked->pictures[0].picture->tokens(), 15u);
    EXPECT_EQ(std::ranges::count(asked->prompt, pad), 15);
    EXPECT_EQ(body["usage"]["prompt_tokens"], 18);
}

TEST_F(Images, ThatAreBrokenAreRefusedByTheirField) {
    const Json error = refusal({"rgb.png", "cut.png"});
    EXPECT_THAT(error["message"].get<std::string>(),
                HasSubstr("messages[0].content[2].image_url.url: the PNG is broken"));
    EXPECT_EQ(error["param"], "messages");
    EXPECT_EQ(whole(ask_with({"cut.png"})).status, 400);
    EXPECT_EQ(whole(ask_with({"huge.png"})).status, 400);
    EXPECT_EQ(whole(ask_with({"animated.webp"})).status, 400);
    EXPECT_FALSE(script->asked.poll());
}

TEST_F(Images, OfMoreTokensThanTheContextAreRefusedWithBothNumbers) {
    script->info.context = 3;
    EXPECT_THAT(refusal({"colour.jpg", "colour.jpg", "colour.jpg"})["message"].get<std::string>(),
                HasSubstr("messages[0].content[3].image_url.url: the images up to this one are 3 tokens, and "
                          "the context holds 3"));
}

TEST_F(Images, ThatTheTemplateHasNoPlaceForAreRefused) {
    service = toy_service(script, Sight(preprocessor(), pad, 256), "{{- 'no images' }}");
    EXPECT_THAT(refusal({"rgb.png"})["message"].get<std::string>(), HasSubstr("room for 0 images"));
}

TEST_F(Images, ForAModelThatSeesNoneAreRefused) {
    service = toy_service(script, Sight("the model is blind"), seeing_template);
    const Json error = refusal({"rgb.png"});
    EXPECT_EQ(error["param"], "messages[0].content[1]");
    EXPECT_EQ(error["message"], "messages[0].content[1] is an image, and the model is blind");
}

}  // namespace
}  // namespace kapitsa

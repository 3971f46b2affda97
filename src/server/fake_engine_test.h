// For tests: an engine that says what the test tells it to, and a model that has a token for every byte. The
// test sees what was asked and what was cancelled by receiving it, so no test sleeps.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "server/model_service.h"

namespace kapitsa {

constexpr Token im_end = 256, end_of_text = 257, long_word = 258;
constexpr std::size_t long_word_bytes = 60'000;
constexpr std::uint32_t toy_vocabulary = 264;

/// A value, if one comes within ten seconds: far more than it takes, so that only a fault runs into it.
template <typename T>
std::optional<T> receive(Channel<T>& channel) {
    for (int i = 0; i < 10'000; ++i) {
        if (auto value = channel.poll()) return value;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return std::nullopt;
}

/// What the fake engine and its test share.
struct Script {
    RunnerInfo info{.architecture = "fake",
                    .vocabulary = toy_vocabulary,
                    .context = 4096,
                    .sequences = 4,
                    .pages = 4096,
                    .rows_per_step = 256};
    /// Called on the thread that submits. By default nothing is said until the test says it.
    std::function<Status(const Submit&)> on_submit = [](const Submit&) { return Done{}; };
    Channel<Submit> asked{1024};
    Channel<Cancel> cancelled{1024};
};

class FakeEngine final : public Engine {
public:
    explicit FakeEngine(std::shared_ptr<Script> script) : script_(std::move(script)) {}

    const RunnerInfo& info() const override { return script_->info; }
    Status submit(Submit request) override {
        if (Status status = script_->on_submit(request); !status) return status;
        EXPECT_TRUE(script_->asked.send(std::move(request)));
        return Done{};
    }
    void cancel(Cancel cancel) override { EXPECT_TRUE(script_->cancelled.send(cancel)); }
    EngineCounters counters() const override { return {}; }

private:
    std::shared_ptr<Script> script_;
};

inline Tokens tokens_of(std::string_view text) {
    Tokens tokens;
    for (const char byte : text)
        tokens.accepted.push_back({.token = static_cast<unsigned char>(byte), .logprob = -0.5f});
    return tokens;
}

inline void say(const Submit& request, std::string_view text) {
    EXPECT_TRUE(request.outbox->send(tokens_of(text)));
}

/// More than a small send buffer and a small receive buffer keep for a reader that reads nothing.
inline void say_much(const Submit& request) {
    EXPECT_TRUE(request.outbox->send(Tokens{std::vector<Emitted>(8, Emitted{.token = long_word})}));
}

inline void start(const Submit& request, std::uint32_t cached_tokens = 0) {
    EXPECT_TRUE(
        request.outbox->send(Started{static_cast<std::uint32_t>(request.prompt.size()), cached_tokens}));
}

inline void finish(const Submit& request, Finished::Reason reason = Finished::Reason::stop_token) {
    EXPECT_TRUE(request.outbox->send(
        Finished{.reason = reason, .prompt_tokens = static_cast<std::uint32_t>(request.prompt.size())}));
    request.outbox->close();
}

/// Answers every request at once with this text.
inline std::function<Status(const Submit&)> always_say(std::string text) {
    return [text = std::move(text)](const Submit& request) -> Status {
        start(request);
        say(request, text);
        finish(request);
        return Done{};
    };
}

/// Tokens 0 to 255 are the bytes; then come the words of the test, then the special tokens.
inline Tokenizer byte_tokenizer(const std::vector<std::string>& words = {}) {
    TokenizerDescription description;
    for (int byte = 0; byte < 256; ++byte)
        description.pieces.push_back(std::string(1, static_cast<char>(byte)));
    description.pieces.resize(long_word);
    description.pieces.push_back(std::string(long_word_bytes, 'x'));
    description.pieces.insert(description.pieces.end(), words.begin(), words.end());
    description.added = {{.id = im_end, .content = "<|im_end|>", .special = true},
                         {.id = end_of_text, .content = "<|endoftext|>", .special = true}};
    auto tokenizer = Tokenizer::make(std::move(description));
    EXPECT_TRUE(tokenizer) << tokenizer.error().message;
    return std::move(*tokenizer);
}

inline std::string decoded(const std::vector<Token>& tokens) {
    std::string text;
    for (const Token token : tokens) text += token < 256 ? std::string(1, static_cast<char>(token)) : "#";
    return text;
}

constexpr std::string_view toy_template =
    "{%- for message in messages %}{%- if message.role == 'user' and message.content == 'refuse me' %}"
    "{{- raise_exception('This model does not like that.') }}{%- endif %}"
    "{{- message.role + ': ' + message.content + '\\n' }}{%- endfor %}"
    "{%- if tools %}{{- 'tools\\n' }}{%- endif %}{{- 'assistant: ' }}"
    "{%- if enable_thinking %}{{- '<think>\\n' }}{%- endif %}";

inline std::unique_ptr<ModelService> toy_service(const std::shared_ptr<Script>& script, Sight sight = {},
                                                 std::string_view source = toy_template) {
    auto chat_template = ChatTemplate::parse(source);
    EXPECT_TRUE(chat_template) << chat_template.error().message;
    return std::make_unique<ModelService>(ModelService::Parts{
        .name = "maker/toy",
        .tokenizer = byte_tokenizer(),
        .chat_template = std::move(*chat_template),
        .format = {.reasoning_open = "<think>",
                   .reasoning_close = "</think>",
                   .calls = ReplyFormat::Calls::qwen_xml},
        .sampling = {.temperature = 0.6f, .top_k = 20, .top_p = 0.95f},
        .stop_tokens = {im_end},
        .sight = std::move(sight),
        .engine = std::make_unique<FakeEngine>(script),
    });
}

}  // namespace kapitsa

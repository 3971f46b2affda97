// Any bytes as the body of a chat or a completion request. What is accepted keeps the promises that the rest
// of the house relies on; what is refused says why, and where, in words that can be sent.
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "base/check.h"
#include "base/utf8.h"
#include "server/openai_request.h"

namespace kapitsa {
namespace {

constexpr std::uint32_t vocabulary = 1000;

void check_refusal(const ApiError& error) {
    CHECK(error.status == 400 && !error.message.empty());
    CHECK(is_utf8(error.message) && is_utf8(error.param));
    CHECK(parse_json(openai_error_body(error)).has_value());
}

void check_settings(const ReplySettings& settings) {
    const Sampling& sampling = settings.sampling;
    CHECK(settings.choices >= 1 && settings.choices <= 8);
    CHECK(sampling.temperature >= 0 && sampling.temperature <= 2);
    CHECK(sampling.top_p >= 0 && sampling.top_p <= 1 && sampling.min_p >= 0 && sampling.min_p <= 1);
    CHECK(sampling.repetition_penalty > 0 && std::isfinite(sampling.presence_penalty));
    CHECK(sampling.top_logprobs <= 20);
    for (const auto& [token, bias] : sampling.logit_bias)
        CHECK(token >= 0 && std::uint32_t(token) < vocabulary && std::abs(bias) <= 100);
    CHECK(settings.stops.size() <= 16);
    for (const std::string& stop : settings.stops) CHECK(!stop.empty() && stop.size() <= 1024);
}

void check_conversation(const Conversation& conversation) {
    CHECK(!conversation.messages.empty());
    std::unordered_set<std::string_view> calls;
    for (const Message& message : conversation.messages) {
        CHECK(message.role == "system" || message.role == "user" || message.role == "assistant" ||
              message.role == "tool");
        CHECK(is_utf8(message.content));
        std::size_t before = 0;
        for (const MessageImage& image : message.images) {
            CHECK(image.file && image.at >= before && image.at <= message.content.size());
            before = image.at;
        }
        for (const ToolCall& call : message.calls) {
            CHECK(!call.id.empty() && !call.name.empty() && !call.arguments.empty());
            calls.insert(call.id);
        }
        CHECK(message.role != "tool" || calls.contains(message.call_id));
    }
    CHECK(!conversation.tools || (conversation.tools->is_array() && !conversation.tools->empty()));
    CHECK(!conversation.variables || conversation.variables->is_object());
}

}  // namespace
}  // namespace kapitsa

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace kapitsa;
    const auto body = parse_json({reinterpret_cast<const char*>(data), size}, {.bytes = 1u << 18});
    if (!body) return 0;
    const ModelFacts facts{.sampling = {}, .vocabulary = vocabulary, .blind_because = {}};
    if (const auto chat = parse_chat_request(*body, facts)) {
        check_settings(chat->settings);
        check_conversation(chat->conversation);
    } else {
        check_refusal(chat.error());
    }
    if (const auto completion = parse_completion_request(*body, facts)) {
        check_settings(completion->settings);
        CHECK(!completion->prompts.empty() &&
              completion->prompts.size() * completion->settings.choices <= 32);
        for (const auto& prompt : completion->prompts)
            if (const auto* tokens = std::get_if<std::vector<Token>>(&prompt))
                for (const Token token : *tokens) CHECK(token >= 0 && std::uint32_t(token) < vocabulary);
    } else {
        check_refusal(completion.error());
    }
    return 0;
}

// Any bytes as a chat template over one conversation: a clean error, or a prompt whose ranges are in order.
#include <cstdint>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "chat/chat_template.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace kapitsa;
    static const Conversation conversation{
        {{"system", "Be brief."},
         {"user", "<|im_end|> what?\n"},
         {"assistant", "", "thoughts", {{"1", "look", R"({"a": [1, 2.5, null], "b": "x"})"}}, ""},
         {"tool", "42", {}, {}, "1"}},
        std::make_shared<const Json>(
            Json::parse(R"([{"type":"function","function":{"name":"look","parameters":{}}}])")),
        std::make_shared<const Json>(Json::parse(R"({"enable_thinking": true, "n": 3})"))};
    const auto parsed = ChatTemplate::parse({reinterpret_cast<const char*>(data), size}, "<s>", "</s>");
    if (!parsed) return 0;
    const auto prompt = parsed->render(conversation, true);
    if (!prompt) return 0;
    std::size_t at = 0;
    for (const auto& range : prompt->plain) {
        CHECK(range.begin >= at && range.begin < range.end && range.end <= prompt->text.size());
        at = range.end;
    }
    return 0;
}

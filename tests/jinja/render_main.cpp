// Renders templates for tests/jinja/compare.py: a JSON object a line in, a JSON object a line out.
//   {"template": "...", "variables": {...}, "now": 0}                     a bare template
//   {"template": "...", "conversation": {...}, "add_generation_prompt": true}   the way the server renders
// Out: {"text": "...", "plain": [[begin, end], ...]} or {"error": "..."}.
#include <iostream>
#include <nlohmann/json.hpp>

#include "chat/chat_template.h"
#include "chat/jinja/from_json.h"
#include "chat/jinja/template.h"

namespace {

using kapitsa::Json;

kapitsa::Result<kapitsa::MarkedText> render_bare(const Json& request) {
    const auto parsed = TRY(kapitsa::jinja::Template::parse(request.at("template").get<std::string>()));
    kapitsa::jinja::Budget budget{kapitsa::jinja::Limits{}};
    kapitsa::jinja::Variables variables;
    for (const auto& [name, value] : request.at("variables").items())
        variables.emplace(name, TRY(kapitsa::jinja::from_json(budget, value)));
    return parsed.render(variables, budget, request.value("now", std::int64_t{0}));
}

kapitsa::Conversation conversation_of(const Json& json) {
    kapitsa::Conversation conversation;
    for (const Json& from : json.at("messages")) {
        kapitsa::Message message;
        message.role = from.at("role");
        message.content = from.at("content");
        if (from.contains("reasoning")) message.reasoning = from.at("reasoning").get<std::string>();
        message.call_id = from.value("call_id", "");
        for (const Json& call : from.value("calls", Json::array()))
            message.calls.push_back({call.at("id"), call.at("name"), call.at("arguments")});
        conversation.messages.push_back(std::move(message));
    }
    if (json.contains("tools")) conversation.tools = std::make_shared<const Json>(json.at("tools"));
    if (json.contains("variables"))
        conversation.variables = std::make_shared<const Json>(json.at("variables"));
    return conversation;
}

kapitsa::Result<kapitsa::MarkedText> render(const Json& request) {
    if (!request.contains("conversation")) return render_bare(request);
    const auto parsed =
        TRY(kapitsa::ChatTemplate::parse(request.at("template").get<std::string>(), "<s>", "</s>"));
    return parsed.render(conversation_of(request.at("conversation")),
                         request.value("add_generation_prompt", true));
}

}  // namespace

int main() {
    for (std::string line; std::getline(std::cin, line);) {
        const Json request = Json::parse(line, nullptr, false);
        Json answer = Json::object();
        if (const auto text = render(request)) {
            answer["text"] = text->text;
            answer["plain"] = Json::array();
            for (const auto& range : text->plain) answer["plain"].push_back({range.begin, range.end});
        } else {
            answer["error"] = text.error().message;
        }
        std::cout << answer.dump(-1, ' ', false, Json::error_handler_t::replace) << '\n';
    }
    return 0;
}

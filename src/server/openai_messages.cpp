#include <nlohmann/json.hpp>
#include <unordered_set>

#include "server/json_fields.h"
#include "server/openai_request.h"

namespace kapitsa {
namespace {

constexpr std::size_t calls_most = 128;

/// The text of one content part.
Parsed<std::string> parse_part(const Json& part, const std::string& path) {
    if (part.is_string()) return part.get<std::string>();
    if (!part.is_object()) return bad_field(path, path + " must be an object with a type");
    const Fields fields(part, path);
    const auto type = TRY(fields.string("type"));
    if (!type) return bad_field(fields.path("type"), fields.path("type") + " is missing");
    if (*type == "text" || *type == "refusal") {
        auto text = TRY(fields.string(type->c_str()));
        if (!text) return bad_field(fields.path(*type), fields.path(*type) + " is missing");
        return std::move(*text);
    }
    if (*type == "image_url" || *type == "image")
        return bad_field(path, path + " is an image, and this model has no image input", "unsupported");
    return bad_field(path, path + " is of the type \"" + excerpt(*type) + "\"; this model takes text parts",
                     "unsupported");
}

/// Text parts are one text: what a client splits, it splits for its own reasons.
Parsed<std::string> parse_content(const Fields& message, bool required) {
    const Json* content = message.find("content");
    const std::string path = message.path("content");
    if (!content) {
        if (required) return bad_field(path, path + " is missing");
        return std::string();
    }
    if (content->is_string()) return content->get<std::string>();
    if (!content->is_array())
        return bad_field(path, path + " must be a string or an array of parts, not " + content->type_name());
    std::string text;
    for (std::size_t i = 0; i < content->size(); ++i)
        text += TRY(parse_part((*content)[i], element_path(path, i)));
    return text;
}

Parsed<ToolCall> parse_call(const Json& call, const std::string& path) {
    if (!call.is_object()) return bad_field(path, path + " must be an object");
    const Fields fields(call, path);
    const auto type = TRY(fields.string("type"));
    if (type && *type != "function")
        return bad_field(fields.path("type"), fields.path("type") + " must be \"function\"", "unsupported");
    const Json* function = TRY(fields.object("function"));
    if (!function) return bad_field(fields.path("function"), fields.path("function") + " is missing");
    const Fields inner(*function, fields.path("function"));
    ToolCall parsed;
    parsed.id = TRY(fields.string("id")).value_or("");
    if (parsed.id.empty()) return bad_field(fields.path("id"), fields.path("id") + " is missing");
    parsed.name = TRY(inner.string("name")).value_or("");
    if (parsed.name.empty()) return bad_field(inner.path("name"), inner.path("name") + " is missing");
    if (const Json* arguments = inner.find("arguments"); arguments && arguments->is_object())
        parsed.arguments = dump_json(*arguments);  // not the API's form, but a common one
    else
        parsed.arguments = TRY(inner.string("arguments")).value_or("");
    if (parsed.arguments.empty()) parsed.arguments = "{}";
    // A model may have written what is no object, and the client sends it back with the history. Templates
    // walk over an object's members, so the text becomes one: the conversation goes on, and the model sees
    // what it wrote.
    if (const auto object = parse_json(parsed.arguments); !object || !object->is_object())
        parsed.arguments = dump_json(Json{{"arguments", parsed.arguments}});
    return parsed;
}

Parsed<Message> parse_assistant(const Fields& fields) {
    Message message;
    message.role = "assistant";
    message.content = TRY(parse_content(fields, false));
    message.reasoning = TRY(fields.string("reasoning_content"));
    // Another name in use for it. Where it is not a string, it is another API's object and not ours to judge.
    if (const Json* other = fields.find("reasoning"); !message.reasoning && other && other->is_string())
        message.reasoning = other->get<std::string>();
    if (const Json* calls = TRY(fields.array("tool_calls", calls_most)))
        for (std::size_t i = 0; i < calls->size(); ++i)
            message.calls.push_back(TRY(parse_call((*calls)[i], element_path(fields.path("tool_calls"), i))));
    return message;
}

Parsed<Message> parse_tool_result(const Fields& fields, const std::unordered_set<std::string>& calls) {
    Message message;
    message.role = "tool";
    message.content = TRY(parse_content(fields, false));
    message.call_id = TRY(fields.string("tool_call_id")).value_or("");
    const std::string path = fields.path("tool_call_id");
    if (message.call_id.empty()) return bad_field(path, path + " is missing");
    if (!calls.contains(message.call_id))
        return bad_field(path, path + " answers no call of an assistant message before it");
    return message;
}

Parsed<Message> parse_message(const Json& json, const std::string& path,
                              const std::unordered_set<std::string>& calls) {
    if (!json.is_object()) return bad_field(path, path + " must be an object with a role");
    const Fields fields(json, path);
    const auto role = TRY(fields.string("role"));
    if (!role) return bad_field(fields.path("role"), fields.path("role") + " is missing");
    if (*role == "assistant") return parse_assistant(fields);
    if (*role == "tool") return parse_tool_result(fields, calls);
    if (*role != "system" && *role != "developer" && *role != "user")
        return bad_field(fields.path("role"),
                         fields.path("role") + " is \"" + excerpt(*role) +
                             "\"; it must be system, developer, user, assistant or tool");
    Message message;
    message.role = *role == "user" ? "user" : "system";
    message.content = TRY(parse_content(fields, true));
    return message;
}

}  // namespace

Parsed<std::vector<Message>> parse_messages(const Json& messages) {
    std::vector<Message> parsed;
    std::unordered_set<std::string> calls;
    for (std::size_t i = 0; i < messages.size(); ++i) {
        Message message = TRY(parse_message(messages[i], element_path("messages", i), calls));
        for (const ToolCall& call : message.calls) calls.insert(call.id);
        if (parsed.size() == 1 && message.role == "system" && parsed[0].role == "system")
            parsed[0].content += "\n\n" + message.content;
        else
            parsed.push_back(std::move(message));
    }
    return parsed;
}

}  // namespace kapitsa

#include <nlohmann/json.hpp>
#include <unordered_set>

#include "image/decode.h"
#include "server/data_url.h"
#include "server/json_fields.h"
#include "server/openai_request.h"

namespace kapitsa {
namespace {

constexpr std::size_t calls_most = 128, images_most = 64;

/// What all messages of a request share.
struct Reading {
    const std::string& blind_because;
    std::size_t images = 0;
    std::unordered_set<std::string> calls = {};  // the ids of those so far
};

/// {"type": "image_url", "image_url": {"url": "data:..."}}, or the URL itself in place of the object.
Parsed<MessageImage> parse_image(const Fields& part, const std::string& path, Reading& reading) {
    if (!reading.blind_because.empty())
        return bad_field(path, path + " is an image, and " + reading.blind_because, "unsupported");
    if (++reading.images > images_most)
        return bad_field(path,
                         path + " is one image too many: a request may have " + std::to_string(images_most));
    const Json* image = part.find("image_url");
    std::string where = part.path("image_url");
    if (image && image->is_object()) {
        const auto url = image->find("url");
        where += ".url";
        image = url == image->end() ? nullptr : &*url;
    }
    if (!image || !image->is_string()) return bad_field(where, where + " must be a string");
    const auto& url = image->get_ref<const std::string&>();
    if (!is_data_url(url))
        return bad_field(where,
                         where +
                             " must be a data URL (data:image/png;base64,...): this server fetches "
                             "nothing from elsewhere",
                         "unsupported");
    auto file = read_data_url(url, image_bytes_most);
    if (!file) return bad_field(where, where + " " + file.error().message);
    return MessageImage{0, std::make_shared<const std::string>(std::move(*file)), where};
}

/// Adds one content part to the message.
Parsed<Done> parse_part(const Json& part, const std::string& path, Reading& reading, Message& message) {
    if (part.is_string()) {
        message.content += part.get_ref<const std::string&>();
        return Done{};
    }
    if (!part.is_object()) return bad_field(path, path + " must be an object with a type");
    const Fields fields(part, path);
    const auto type = TRY(fields.string("type"));
    if (!type) return bad_field(fields.path("type"), fields.path("type") + " is missing");
    if (*type == "text" || *type == "refusal") {
        auto text = TRY(fields.string(type->c_str()));
        if (!text) return bad_field(fields.path(*type), fields.path(*type) + " is missing");
        message.content += *text;
        return Done{};
    }
    if (*type == "image_url") {
        MessageImage image = TRY(parse_image(fields, path, reading));
        image.at = message.content.size();
        message.images.push_back(std::move(image));
        return Done{};
    }
    return bad_field(
        path,
        path + " is of the type \"" + excerpt(*type) + "\"; parts are of the type text or image_url here",
        "unsupported");
}

/// Text parts are one text: what a client splits, it splits for its own reasons.
Parsed<Done> parse_content(const Fields& fields, bool required, Reading& reading, Message& message) {
    const Json* content = fields.find("content");
    const std::string path = fields.path("content");
    if (!content) {
        if (required) return bad_field(path, path + " is missing");
        return Done{};
    }
    if (content->is_string()) {
        message.content = content->get<std::string>();
        return Done{};
    }
    if (!content->is_array())
        return bad_field(path, path + " must be a string or an array of parts, not " + content->type_name());
    for (std::size_t i = 0; i < content->size(); ++i)
        TRY(parse_part((*content)[i], element_path(path, i), reading, message));
    return Done{};
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

Parsed<Message> parse_assistant(const Fields& fields, Reading& reading) {
    Message message;
    message.role = "assistant";
    TRY(parse_content(fields, false, reading, message));
    message.reasoning = TRY(fields.string("reasoning_content"));
    // Another name in use for it. Where it is not a string, it is another API's object and not ours to judge.
    if (const Json* other = fields.find("reasoning"); !message.reasoning && other && other->is_string())
        message.reasoning = other->get<std::string>();
    if (const Json* calls = TRY(fields.array("tool_calls", calls_most)))
        for (std::size_t i = 0; i < calls->size(); ++i)
            message.calls.push_back(TRY(parse_call((*calls)[i], element_path(fields.path("tool_calls"), i))));
    return message;
}

Parsed<Message> parse_tool_result(const Fields& fields, Reading& reading) {
    Message message;
    message.role = "tool";
    TRY(parse_content(fields, false, reading, message));
    message.call_id = TRY(fields.string("tool_call_id")).value_or("");
    const std::string path = fields.path("tool_call_id");
    if (message.call_id.empty()) return bad_field(path, path + " is missing");
    if (!reading.calls.contains(message.call_id))
        return bad_field(path, path + " answers no call of an assistant message before it");
    return message;
}

Parsed<Message> parse_message(const Json& json, const std::string& path, Reading& reading) {
    if (!json.is_object()) return bad_field(path, path + " must be an object with a role");
    const Fields fields(json, path);
    const auto role = TRY(fields.string("role"));
    if (!role) return bad_field(fields.path("role"), fields.path("role") + " is missing");
    if (*role == "assistant") return parse_assistant(fields, reading);
    if (*role == "tool") return parse_tool_result(fields, reading);
    if (*role != "system" && *role != "developer" && *role != "user")
        return bad_field(fields.path("role"),
                         fields.path("role") + " is \"" + excerpt(*role) +
                             "\"; it must be system, developer, user, assistant or tool");
    Message message;
    message.role = *role == "user" ? "user" : "system";
    TRY(parse_content(fields, true, reading, message));
    if (message.role == "system" && !message.images.empty())
        return bad_field(fields.path("content"),
                         fields.path("content") + " has an image; system messages are text alone");
    return message;
}

}  // namespace

Parsed<std::vector<Message>> parse_messages(const Json& messages, const std::string& blind_because) {
    std::vector<Message> parsed;
    Reading reading{blind_because};
    for (std::size_t i = 0; i < messages.size(); ++i) {
        Message message = TRY(parse_message(messages[i], element_path("messages", i), reading));
        for (const ToolCall& call : message.calls) reading.calls.insert(call.id);
        if (parsed.size() == 1 && message.role == "system" && parsed[0].role == "system")
            parsed[0].content += "\n\n" + message.content;
        else
            parsed.push_back(std::move(message));
    }
    return parsed;
}

}  // namespace kapitsa

#include "chat/json_calls.h"

#include <nlohmann/json.hpp>

namespace kapitsa::json_calls {
namespace {

constexpr std::size_t calls_limit = 256;

/// The arguments of one call as the JSON text of an object.
std::optional<std::string> arguments_of(const Json& call) {
    const auto found = call.find("arguments");
    if (found == call.end() || found->is_null()) return "{}";
    if (found->is_object()) return dump_json(*found);
    if (!found->is_string()) return {};
    const auto& text = found->get_ref<const std::string&>();
    const auto object = parse_json(text);
    if (!object || !object->is_object()) return {};
    return text;
}

}  // namespace

std::size_t ListEnd::pass(std::string_view text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (!begun_) {
            if (c == ' ' || c == '\t' || c == '\r' || c == '\n') continue;
            failed_ = c != '[';
            if (failed_) return i;
            begun_ = true;
            depth_ = 1;
        } else if (in_string_) {
            if (escaped_)
                escaped_ = false;
            else if (c == '\\')
                escaped_ = true;
            else if (c == '"')
                in_string_ = false;
        } else if (c == '"') {
            in_string_ = true;
        } else if (c == '[' || c == '{') {
            ++depth_;
        } else if ((c == ']' || c == '}') && --depth_ == 0) {
            return i + 1;
        }
    }
    return text.size();
}

std::optional<std::vector<ToolCall>> parse(std::string_view list) {
    const auto json = parse_json(list);
    if (!json || !json->is_array() || json->empty() || json->size() > calls_limit) return {};
    std::vector<ToolCall> calls;
    for (const Json& call : *json) {
        if (!call.is_object()) return {};
        const auto name = call.find("name");
        if (name == call.end() || !name->is_string() || name->get_ref<const std::string&>().empty())
            return {};
        auto arguments = arguments_of(call);
        if (!arguments) return {};
        calls.push_back({.id = {}, .name = name->get<std::string>(), .arguments = std::move(*arguments)});
    }
    return calls;
}

}  // namespace kapitsa::json_calls

// A conversation as templates expect it from transformers: `messages`, `tools`, `add_generation_prompt`, the
// tokens' texts, and the client's own variables. Everything of the conversation is plain but the names of
// the four roles, which are words of ours: a template may build a control token from one (`<|user|>`).
#include "chat/chat_template.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "chat/jinja/from_json.h"
#include "chat/jinja/template.h"

namespace kapitsa {

namespace {

using jinja::Budget;
using jinja::Text;
using jinja::Value;
using jinja::Variables;

Value plain(std::string_view text) { return Text::plain(repair_utf8(text)); }
Value control(std::string_view text) { return Text::control(repair_utf8(text)); }

/// A dict that came from the conversation.
class Fields {
public:
    explicit Fields(Budget& budget) : budget_(budget) {}
    void put(std::string_view name, Value value) { items_.emplace_back(plain(name), std::move(value)); }
    Result<Value> finish() { return jinja::make_dict(budget_, std::move(items_), true); }

private:
    Budget& budget_;
    std::vector<std::pair<Value, Value>> items_;
};

Result<Value> plain_list(Budget& budget, std::vector<Value> items) {
    return jinja::make_sequence(budget, jinja::Sequence::Flavor::list, std::move(items), {}, true);
}

Value role_value(std::string_view role) {
    static constexpr std::string_view ours[] = {"system", "user", "assistant", "tool"};
    return std::ranges::find(ours, role) != std::end(ours) ? control(role) : plain(role);
}

/// The object that the arguments are; their text where they are none.
Value arguments_value(Budget& budget, std::string_view text) {
    auto parsed = jinja::parse_json_value(budget, text);
    if (parsed && parsed->dict()) return std::move(*parsed);
    return plain(text);
}

Result<Value> call_value(Budget& budget, const ToolCall& call) {
    Fields function(budget);
    function.put("name", plain(call.name));
    function.put("arguments", arguments_value(budget, call.arguments));
    Fields fields(budget);
    if (!call.id.empty()) fields.put("id", plain(call.id));
    fields.put("type", plain("function"));
    fields.put("function", TRY(function.finish()));
    return fields.finish();
}

/// Text, or a list of parts where there are images among it.
Result<Value> content_value(Budget& budget, const Message& message) {
    const std::string_view content = message.content;
    if (message.images.empty()) return plain(content);
    std::vector<Value> parts;
    const auto add_text = [&](std::size_t begin, std::size_t end) -> Status {
        if (begin == end) return Done{};
        Fields fields(budget);
        fields.put("type", plain("text"));
        fields.put("text", plain(content.substr(begin, end - begin)));
        parts.push_back(TRY(fields.finish()));
        return Done{};
    };
    std::size_t begin = 0;
    for (const MessageImage& image : message.images) {
        const std::size_t at = std::clamp(image.at, begin, content.size());
        TRY(add_text(begin, at));
        begin = at;
        Fields fields(budget);
        fields.put("type", plain("image"));
        parts.push_back(TRY(fields.finish()));
    }
    TRY(add_text(begin, content.size()));
    return plain_list(budget, std::move(parts));
}

/// The names of the calls so far, by their ids.
using CallNames = std::map<std::string_view, std::string_view>;

Result<Value> message_value(Budget& budget, const Message& message, CallNames& names) {
    TRY(budget.take(message.content.size()));
    Fields fields(budget);
    fields.put("role", role_value(message.role));
    fields.put("content", TRY(content_value(budget, message)));
    if (message.reasoning) fields.put("reasoning_content", plain(*message.reasoning));
    std::vector<Value> calls;
    for (const ToolCall& call : message.calls) {
        calls.push_back(TRY(call_value(budget, call)));
        names[call.id] = call.name;
    }
    if (!calls.empty()) fields.put("tool_calls", TRY(plain_list(budget, std::move(calls))));
    if (!message.call_id.empty()) {
        fields.put("tool_call_id", plain(message.call_id));
        const auto name = names.find(message.call_id);
        if (name != names.end()) fields.put("name", plain(name->second));
    }
    return fields.finish();
}

Result<Variables> variables_of(Budget& budget, const Conversation& conversation) {
    Variables variables;
    if (conversation.variables && conversation.variables->is_object())
        for (const auto& [name, value] : conversation.variables->items())
            variables.insert_or_assign(name, TRY(jinja::from_json(budget, value)));
    std::vector<Value> messages;
    CallNames names;
    for (const Message& message : conversation.messages)
        messages.push_back(TRY(message_value(budget, message, names)));
    // The conversation's own names cannot be taken by a client's variables.
    variables.insert_or_assign("messages", TRY(plain_list(budget, std::move(messages))));
    const bool has_tools = conversation.tools && !conversation.tools->empty();
    variables.insert_or_assign(
        "tools", has_tools ? TRY(jinja::from_json(budget, *conversation.tools)) : Value(jinja::None{}));
    return variables;
}

/// A long conversation may take longer: templates walk it a few times, and copy what it says.
jinja::Limits limits_for(const Conversation& conversation) {
    constexpr std::size_t steps_per_message = 2000, copies = 16;
    jinja::Limits limits;
    limits.steps += steps_per_message * conversation.messages.size();
    constexpr std::size_t bytes_per_image = 256;  // of what the template writes for one
    for (const Message& message : conversation.messages) {
        std::size_t bytes = message.content.size() + (message.reasoning ? message.reasoning->size() : 0);
        bytes += message.images.size() * bytes_per_image;
        limits.steps += steps_per_message * message.images.size();
        for (const ToolCall& call : message.calls) bytes += call.arguments.size();
        limits.bytes += copies * bytes;
        limits.output_bytes += bytes;
    }
    return limits;
}

}  // namespace

struct ChatTemplate::Impl {
    jinja::Template source;
    Value bos, eos;
};

ChatTemplate::ChatTemplate(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

Result<ChatTemplate> ChatTemplate::parse(std::string_view source, const std::string& bos,
                                         const std::string& eos) {
    auto parsed = TRY(jinja::Template::parse(source));
    return ChatTemplate(std::make_unique<const Impl>(std::move(parsed), control(bos), control(eos)));
}

Result<MarkedText> ChatTemplate::render(const Conversation& conversation, bool add_generation_prompt) const {
    Budget budget(limits_for(conversation));
    Variables variables = TRY(variables_of(budget, conversation));
    variables.insert_or_assign("add_generation_prompt", add_generation_prompt);
    variables.insert_or_assign("bos_token", impl_->bos);
    variables.insert_or_assign("eos_token", impl_->eos);
    return impl_->source.render(variables, budget, std::time(nullptr));
}

}  // namespace kapitsa

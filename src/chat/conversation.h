// A conversation as every API dialect means it: the dialects parse into this, templates render from it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace kapitsa {

struct ToolCall {
    std::string id;
    std::string name;
    std::string arguments;  // JSON text of an object, as the model or the client wrote it
};

/// A file of an image in a message.
struct MessageImage {
    std::size_t at = 0;                       // the byte of the content that it stands before
    std::shared_ptr<const std::string> file;  // its bytes, not yet looked at
    std::string name;                         // what messages about it call it: a field, or a path
};

struct Message {
    std::string role;  // "system", "user", "assistant", "tool"
    std::string content = {};
    std::optional<std::string> reasoning = {};  // of an assistant
    std::vector<ToolCall> calls = {};           // of an assistant
    std::string call_id = {};                   // of a tool: which call it answers
    std::vector<MessageImage> images = {};      // by place
};

struct Conversation {
    std::vector<Message> messages;
    /// The tools as the client sent them, in the OpenAI form: [{"type":"function","function":{...}}]. May be
    /// null.
    std::shared_ptr<const Json> tools;
    /// More variables for the template (`enable_thinking`, ...): an object, or null.
    std::shared_ptr<const Json> variables;
};

}  // namespace kapitsa

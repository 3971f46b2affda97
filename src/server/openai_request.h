// The bodies of /v1/chat/completions and /v1/completions: JSON in, a checked request out. Nothing in them is
// trusted; every error names its field. Fields that we do not know are ignored, fields that we know and do
// not do are refused, since a client that asked for JSON must not be given prose.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "chat/conversation.h"
#include "engine/messages.h"
#include "server/api_error.h"

namespace kapitsa {

/// What the served model gives to a request that leaves it open, and what bounds one.
struct ModelFacts {
    Sampling sampling;
    std::uint32_t vocabulary = 0;
};

struct ReplySettings {
    std::string model;
    Sampling sampling;                  // all but the seed
    std::optional<std::uint64_t> seed;  // of the first choice to a prompt, else random; the others count on
    std::uint32_t max_tokens = 0;       // 0: what the context leaves
    std::vector<std::string> stops;
    std::uint32_t choices = 1;  // to each prompt
    bool stream = false, include_usage = false;
};

struct ChatRequest {
    ReplySettings settings;
    Conversation conversation;  // its tools are null where calls are not wanted
};

struct CompletionRequest {
    ReplySettings settings;
    std::vector<std::variant<std::string, std::vector<Token>>> prompts;
};

Parsed<ChatRequest> parse_chat_request(const Json& body, const ModelFacts& model);
Parsed<CompletionRequest> parse_completion_request(const Json& body, const ModelFacts& model);

/// The conversation of an array "messages". Developer messages become system messages; those that open the
/// conversation are joined to one, which is all that templates take.
Parsed<std::vector<Message>> parse_messages(const Json& messages);

}  // namespace kapitsa

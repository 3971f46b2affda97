// A model's chat template: Jinja, as the checkpoint brings it. The interpreter is ours (chat/jinja/).
// A template is input like any other file: bounded in steps, depth and output.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "chat/conversation.h"
#include "text/marked_text.h"

namespace kapitsa {

/// Immutable once parsed; any number of threads may render at once.
class ChatTemplate {
public:
    /// `bos`, `eos`: the texts of the tokens of that name, for templates that print them ("" if there are
    /// none).
    static Result<ChatTemplate> parse(std::string_view source, const std::string& bos = {},
                                      const std::string& eos = {});
    ChatTemplate(ChatTemplate&&) noexcept;
    ChatTemplate& operator=(ChatTemplate&&) noexcept;
    ~ChatTemplate();

    /// The prompt. Bytes that came from the conversation are marked plain; only the template's own words can
    /// become control tokens. Fault::invalid_input with the template's own message when it raises.
    Result<MarkedText> render(const Conversation& conversation, bool add_generation_prompt) const;

private:
    struct Impl;
    explicit ChatTemplate(std::unique_ptr<const Impl> impl);
    std::unique_ptr<const Impl> impl_;
};

}  // namespace kapitsa

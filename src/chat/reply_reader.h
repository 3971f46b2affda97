// From the text of an answer to its meaning: reasoning, content, tool calls, piece by piece as it streams.
// The markers of a family are a row in chat/families.cpp; what only looks like markup stays text.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace kapitsa {

/// How a family writes what is not plain content. "" where it has no such thing.
struct ReplyFormat {
    std::string reasoning_open, reasoning_close;  // "<think>", "</think>"
    enum class Calls {
        none,
        qwen_xml,   // <tool_call><function=NAME>..., see chat/markers.h
        json_list,  // <TOOLCALL>[{"name": ...}]</TOOLCALL>, see chat/json_calls.h
    } calls = Calls::none;
};

/// The format that a chat template uses, told from the markers in its text.
ReplyFormat reply_format(std::string_view template_source);

/// One piece of meaning. Pieces of one kind join to the whole.
struct ReplyPiece {
    enum class Kind {
        reasoning,       // text
        content,         // text
        call_begins,     // name; call
        call_arguments,  // text: the next piece of the JSON of the arguments; call
        call_ends,       // call
    } kind;
    std::string text = {};
    std::string name = {};
    std::size_t call = 0;  // the number of the call in this reply, from 0
};

class ReplyReader {
public:
    /// `prompt` is the rendered prompt: a template may have opened the reasoning itself. `tools` (OpenAI
    /// form, may be null) types the arguments and tells which names may be recovered from a naked
    /// `<function=...>`.
    ReplyReader(const ReplyFormat& format, std::string_view prompt, std::shared_ptr<const Json> tools);
    ReplyReader(ReplyReader&&) noexcept;
    ~ReplyReader();

    /// `text` is whole UTF-8. What may yet be a marker is held back; nothing else is.
    std::vector<ReplyPiece> push(std::string_view text);
    /// The answer ended: what was held back is given out. A call that is open is closed, which is fair to a
    /// model that forgets a tag; but not where the answer was `cut` (its length, a stop string): half a call
    /// must not look whole, so its arguments stay open and it has no end.
    std::vector<ReplyPiece> finish(bool cut = false);

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace kapitsa

// The markers of the families: how each writes what is not plain content. A new family is a row here.
#include <algorithm>
#include <iterator>

#include "chat/json_calls.h"
#include "chat/reply_reader.h"

namespace kapitsa {

namespace {

struct Family {
    std::string_view sign;  // what in the template's text tells it
    void (*apply)(ReplyFormat&);
};

constexpr Family families[] = {
    // Qwen3.5 and its kin, Nemotron: thoughts in <think>, written or at least read by the template.
    {"</think>",
     [](ReplyFormat& format) {
         format.reasoning_open = "<think>";
         format.reasoning_close = "</think>";
     }},
    // Calls of Qwen3.5 and its kin and of Nemotron 3; templates show the model an example of them.
    {"<function=", [](ReplyFormat& format) { format.calls = ReplyFormat::Calls::qwen_xml; }},
    // Calls of Nemotron Nano v2.
    {json_calls::open, [](ReplyFormat& format) { format.calls = ReplyFormat::Calls::json_list; }},
};

}  // namespace

ReplyFormat reply_format(std::string_view template_source) {
    ReplyFormat format;
    for (const Family& family : families)
        if (template_source.find(family.sign) != std::string_view::npos) family.apply(format);
    return format;
}

}  // namespace kapitsa

#include "chat/reply_reader.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

namespace kapitsa {
namespace {

const ReplyFormat format{"<think>", "</think>", ReplyFormat::Calls::qwen_xml};

std::shared_ptr<const Json> tools() {
    return std::make_shared<const Json>(Json::parse(R"([
        {"type":"function","function":{"name":"write","parameters":{"properties":{
            "path":{"type":"string"},"text":{"type":"string"},"lines":{"type":"integer"},"all":{"type":"boolean"}}}}},
        {"type":"function","function":{"name":"look","parameters":{"type":"object","properties":{}}}}])"));
}

struct Meaning {
    std::string reasoning, content;
    std::vector<std::pair<std::string, std::string>> calls;  // name, arguments
    std::size_t ended = 0;
    friend bool operator==(const Meaning&, const Meaning&) = default;
};

void PrintTo(const Meaning& meaning, std::ostream* out) {
    *out << "reasoning " << meaning.reasoning << "\ncontent " << meaning.content;
    for (const auto& [name, arguments] : meaning.calls) *out << "\n" << name << " " << arguments;
}

void add(Meaning& meaning, const std::vector<ReplyPiece>& pieces) {
    for (const ReplyPiece& piece : pieces) {
        switch (piece.kind) {
            case ReplyPiece::Kind::reasoning: meaning.reasoning += piece.text; break;
            case ReplyPiece::Kind::content: meaning.content += piece.text; break;
            case ReplyPiece::Kind::call_begins:
                EXPECT_EQ(piece.call, meaning.calls.size());
                meaning.calls.emplace_back(piece.name, "");
                break;
            case ReplyPiece::Kind::call_arguments: meaning.calls.at(piece.call).second += piece.text; break;
            case ReplyPiece::Kind::call_ends: EXPECT_EQ(piece.call, meaning.ended++); break;
        }
    }
}

Meaning read(std::string_view text, std::string_view prompt = "", std::size_t piece = std::string_view::npos,
             std::shared_ptr<const Json> with = tools(), const ReplyFormat& as = format) {
    ReplyReader reader(as, prompt, std::move(with));
    Meaning meaning;
    for (std::size_t at = 0; at < text.size(); at += std::min(piece, text.size() - at))
        add(meaning, reader.push(text.substr(at, piece)));
    add(meaning, reader.finish());
    for (const auto& [name, arguments] : meaning.calls) EXPECT_TRUE(Json::accept(arguments)) << arguments;
    EXPECT_EQ(meaning.ended, meaning.calls.size());
    return meaning;
}

constexpr const char* thinking = "<|im_start|>assistant\n<think>\n";

TEST(ReplyReader, SplitsReasoningThatThePromptOpened) {
    const Meaning meaning = read("why\n</think>\n\nanswer", thinking);
    EXPECT_EQ(meaning.reasoning, "why");
    EXPECT_EQ(meaning.content, "answer");
    EXPECT_EQ(read("\nwhy\n\nnot\n", thinking).reasoning, "why\n\nnot\n");
    EXPECT_EQ(read("<think>\nwhy</think>x", thinking).reasoning, "why");
}

TEST(ReplyReader, SplitsReasoningThatTheAnswerOpens) {
    const Meaning meaning = read("\n<think>\nwhy\n</think>\n\nanswer\n");
    EXPECT_EQ(meaning.reasoning, "why");
    EXPECT_EQ(meaning.content, "answer\n");
}

TEST(ReplyReader, HalfACallOfACutAnswerDoesNotLookWhole) {
    const std::string whole =
        "<tool_call>\n<function=write>\n<parameter=path>\na.py\n</parameter>\n"
        "<parameter=text>\nx = 1\ny = 2\n</parameter>\n</function>\n</tool_call>";
    for (std::size_t bytes = 1; bytes < whole.size(); ++bytes) {
        ReplyReader reader(format, "", tools());
        Meaning meaning;
        add(meaning, reader.push(whole.substr(0, bytes)));
        add(meaning, reader.finish(/*cut=*/true));
        const bool function_closed = bytes >= whole.find("</function>") + 11;
        EXPECT_EQ(meaning.ended, function_closed ? 1u : 0u) << bytes;
        for (const auto& [name, arguments] : meaning.calls)
            EXPECT_EQ(Json::accept(arguments), function_closed) << arguments;
        if (bytes >= 11) {  // the marker is one token: there is no half of it
            EXPECT_EQ(meaning.content, "") << bytes;
        }
    }
}

TEST(ReplyReader, LeavesTagsInProseAlone) {
    for (const char* text :
         {"Use <think> and </think>.", "the <tool_call> tag", "`<tool_call>\n<function=look>`",
          "```xml\n<tool_call>\n<function=look>\n</function>\n</tool_call>\n```", "say <function=look> now",
          "<function=nope>\n</function>", "a < b <tool", "<tool_call>",
          "<tool_call>\n<function=", "<function=look"})
        EXPECT_EQ(read(text).content, text);
}

TEST(ReplyReader, ReadsCalls) {
    const Meaning meaning = read(
        "Writing.\n\n<tool_call>\n<function=write>\n<parameter=path>\na.txt\n</"
        "parameter>\n<parameter=lines>\n3\n"
        "</parameter>\n<parameter=all>\nTrue\n</parameter>\n</function>\n</"
        "tool_call>\n<tool_call>\n<function=look>\n"
        "</function>\n</tool_call>");
    EXPECT_EQ(meaning.content, "Writing.");
    ASSERT_EQ(meaning.calls.size(), 2u);
    EXPECT_EQ(meaning.calls[0].second, R"({"path":"a.txt","lines":3,"all":true})");
    EXPECT_EQ(meaning.calls[1].second, "{}");
}

TEST(ReplyReader, ACallEndsTheReasoning) {
    const Meaning meaning =
        read("hm\n<tool_call>\n<function=look>\n</function>\n</tool_call>\nThen.", thinking);
    EXPECT_EQ(meaning.reasoning, "hm");
    EXPECT_EQ(meaning.content, "Then.");
    EXPECT_EQ(meaning.calls.size(), 1u);
}

std::string call_with(std::string_view value) {
    return "<tool_call>\n<function=write>\n<parameter=text>\n" + std::string(value) +
           "\n</parameter>\n</function>\n</tool_call>";
}

std::string text_of(const Meaning& meaning) {
    if (meaning.calls.size() != 1) return "not one call";
    return Json::parse(meaning.calls[0].second).at("text").get<std::string>();
}

TEST(ReplyReader, StringsKeepEveryByte) {
    for (const char* value :
         {"", "\n", "  a\n\n", "\"\\\t\x01", "</think> <tool_call> <function=look>", "x </parameter> y",
          "a\n</parameter>\nb", "<parameter=path>\ninline", "if a < b: </function> done",
          "<tool_call>\n<function=look>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>",
          "ünï 你好"}) {
        EXPECT_EQ(text_of(read(call_with(value))),
                  value == std::string_view("<parameter=path>\ninline") ? "" : value)
            << value;
    }
}

TEST(ReplyReader, StreamsAStringAsItComes) {
    ReplyReader reader(format, "", tools());
    Meaning meaning;
    add(meaning, reader.push("<tool_call>\n<function=write>"));
    ASSERT_EQ(meaning.calls.size(), 1u);
    add(meaning, reader.push("\n<parameter=text>\nhello wor"));
    EXPECT_EQ(meaning.calls[0].second, R"({"text":"hello wor)");
}

TEST(ReplyReader, MissingEndsAreMadeUpFor) {
    EXPECT_EQ(read("<tool_call>\n<function=write>\n<parameter=path>\na\n<parameter=text>\nb\n</function>\n</"
                   "tool_call>")
                  .calls[0]
                  .second,
              R"({"path":"a","text":"b"})");
    EXPECT_EQ(read("<tool_call>\n<function=look>\n</function>").calls.size(), 1u);
    EXPECT_EQ(text_of(read("<tool_call>\n<function=write>\n<parameter=text>\ncut of")), "cut of");
    EXPECT_EQ(read("<tool_call>\n<function=write>\n<parameter=lines>\n1").calls[0].second, R"({"lines":1})");
    EXPECT_EQ(read("<tool_call>\n<function=look>\n</function>\n</tool_ca").content, "");
}

TEST(ReplyReader, TheFirstOfTwoEqualParametersStays) {
    EXPECT_EQ(read("<tool_call>\n<function=write>\n<parameter=path>\na\n</parameter>\n<parameter=path>\nb\n</"
                   "parameter>\n"
                   "</function>\n</tool_call>")
                  .calls[0]
                  .second,
              R"({"path":"a"})");
}

TEST(ReplyReader, RecoversANakedFunctionOfAKnownTool) {
    const Meaning meaning =
        read("Ok.\n<function=write>\n<parameter=path>\na\n</parameter>\n</function>\n</tool_call>");
    EXPECT_EQ(meaning.content, "Ok.");
    ASSERT_EQ(meaning.calls.size(), 1u);
    EXPECT_EQ(meaning.calls[0].second, R"({"path":"a"})");
}

TEST(ReplyReader, WithoutToolsNothingIsACall) {
    const std::string text = call_with("x");
    EXPECT_EQ(read(text, "", std::string_view::npos, nullptr).content, text);
}

TEST(ReplyReader, TakesTheFormatFromTheTemplate) {
    EXPECT_EQ(reply_format("{{ '</think>' }}<function=x>").calls, ReplyFormat::Calls::qwen_xml);
    EXPECT_EQ(reply_format("{{ '</think>' }}").reasoning_open, "<think>");
    EXPECT_EQ(reply_format("plain").reasoning_open, "");
}

/// Any way to cut the text means the same.
TEST(ReplyReader, CutsDoNotMatter) {
    static constexpr const char* bricks[] = {
        "<think>",
        "</think>",
        "\n",
        "\n\n",
        "<tool_call>",
        "</tool_call>",
        "<function=write>",
        "<function=look>",
        "<function=nope>",
        "</function>",
        "<parameter=path>",
        "<parameter=text>",
        "<parameter=lines>",
        "<parameter=zz>",
        "</parameter>",
        "word",
        "a < b",
        " ",
        "```",
        "`",
        "12",
        "é",
        "\"",
        "<",
        "<tool_call>\n<function=write>\n<parameter=text>\n",
        "\n</parameter>\n</function>\n</tool_call>",
        "                                                                      "};
    std::mt19937 random(7);
    for (int round = 0; round < 1500; ++round) {
        std::string text;
        const std::size_t count = random() % 24;
        for (std::size_t i = 0; i < count; ++i) text += bricks[random() % std::size(bricks)];
        const char* prompt = round % 2 ? thinking : "";
        const Meaning whole = read(text, prompt);
        EXPECT_EQ(read(text, prompt, 1), whole) << text;
        EXPECT_EQ(read(text, prompt, 1 + random() % 17), whole) << text;
    }
}

TEST(ReplyReader, LongAnswersTakeLinearTime) {
    std::string text = "<tool_call>\n<function=write>\n<parameter=text>\n";
    for (int i = 0; i < 20'000; ++i) text += "</parameter>    <tool_call>\n   <";
    EXPECT_EQ(read(text, "", 3).calls.size(), 1u);
    std::string spaces = "<tool_call>" + std::string(300'000, ' ');
    EXPECT_EQ(read(spaces, "", 1).content, spaces);
}

const ReplyFormat lists{"<think>", "</think>", ReplyFormat::Calls::json_list};

/// The meaning of an answer with a list of calls, which no cut of the stream changes.
Meaning read_list(std::string_view text, std::string_view prompt = "") {
    const Meaning meaning = read(text, prompt, text.size() + 1, tools(), lists);
    for (std::size_t piece = 1; piece <= text.size(); ++piece)
        EXPECT_EQ(read(text, prompt, piece, tools(), lists), meaning) << "pieces of " << piece;
    return meaning;
}

TEST(ReplyReader, ReadsCallsFromAList) {
    const Meaning meaning = read_list(
        "why\n</think>\n\nI look.\n\n<TOOLCALL>[{\"name\": \"look\", \"arguments\": {}}, {\"name\": "
        "\"write\", "
        "\"arguments\": {\"path\": \"a\", \"text\": \"]</TOOLCALL>\\\"}\"}}]</TOOLCALL>\n",
        "<SPECIAL_11>Assistant\n<think>\n");
    EXPECT_EQ(meaning.reasoning, "why");
    EXPECT_EQ(meaning.content, "I look.");
    ASSERT_EQ(meaning.calls.size(), 2u);
    EXPECT_EQ(meaning.calls[0], (std::pair<std::string, std::string>("look", "{}")));
    EXPECT_EQ(meaning.calls[1].first, "write");
    EXPECT_EQ(Json::parse(meaning.calls[1].second)["text"], "]</TOOLCALL>\"}");
}

TEST(ReplyReader, ReadsAListWithoutItsEndTagAndArgumentsInAString) {
    const Meaning meaning =
        read_list("<TOOLCALL>[{\"name\": \"write\", \"arguments\": \"{\\\"lines\\\": 3}\"}]");
    ASSERT_EQ(meaning.calls.size(), 1u);
    EXPECT_EQ(meaning.calls[0].second, "{\"lines\": 3}");
    EXPECT_EQ(read_list("<TOOLCALL> [{\"name\": \"look\"}] </TOOLC").calls.size(), 1u);
}

TEST(ReplyReader, WhatIsNoListOfCallsStaysText) {
    for (const char* text :
         {"<TOOLCALL>none</TOOLCALL>", "<TOOLCALL>[]</TOOLCALL>", "<TOOLCALL>[1]</TOOLCALL>",
          "<TOOLCALL>[{\"name\": \"look\", \"arguments\": 3}]</TOOLCALL>", "<TOOLCALL>[{\"name\": \"look\"",
          "<TOOLCALL>[{\"name\" \"look\"}]</TOOLCALL>", "<TOOLCALL", "`<TOOLCALL>[{\"name\": \"look\"}]`"}) {
        const Meaning meaning = read_list(text);
        EXPECT_EQ(meaning.content, text);
        EXPECT_TRUE(meaning.calls.empty());
    }
}

TEST(ReplyReader, HalfAListOfACutAnswerIsNeitherCallNorText) {
    ReplyReader reader(lists, "", tools());
    Meaning meaning;
    add(meaning, reader.push("Now. <TOOLCALL>[{\"name\": \"look\", \"argu"));
    add(meaning, reader.finish(true));
    EXPECT_EQ(meaning, (Meaning{"", "Now. ", {}, 0}));
}

TEST(ReplyFormat, IsToldFromTheTemplatesOwnWords) {
    EXPECT_EQ(reply_format("{{ '<think></think>' }} <TOOLCALL>[{\"name\"").calls,
              ReplyFormat::Calls::json_list);
    EXPECT_EQ(reply_format("<tool_call>\n<function=example>").calls, ReplyFormat::Calls::qwen_xml);
    EXPECT_EQ(reply_format("plain").calls, ReplyFormat::Calls::none);
}

TEST(ReplyReader, AThoughtThatThePromptClosedIsOver) {
    EXPECT_EQ(read("answer", "<|im_start|>assistant\n<think></think>").content, "answer");
}

}  // namespace
}  // namespace kapitsa

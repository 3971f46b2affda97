// Any answer, cut anywhere: the meaning does not depend on the cuts, and arguments are JSON.
// The first byte chooses the cuts and the prompt.
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/utf8.h"
#include "chat/reply_reader.h"

namespace {

using namespace kapitsa;

struct Meaning {
    std::string reasoning, content;
    std::map<std::size_t, std::string> names, arguments;
    std::size_t ended = 0;
    friend bool operator==(const Meaning&, const Meaning&) = default;
};

void add(Meaning& meaning, const std::vector<ReplyPiece>& pieces) {
    for (const ReplyPiece& piece : pieces) {
        if (piece.kind == ReplyPiece::Kind::reasoning) meaning.reasoning += piece.text;
        if (piece.kind == ReplyPiece::Kind::content) meaning.content += piece.text;
        if (piece.kind == ReplyPiece::Kind::call_begins) meaning.names[piece.call] = piece.name;
        if (piece.kind == ReplyPiece::Kind::call_arguments) meaning.arguments[piece.call] += piece.text;
        if (piece.kind == ReplyPiece::Kind::call_ends) ++meaning.ended;
    }
}

Meaning read(std::string_view text, bool thinking, bool lists, std::size_t piece) {
    static const auto tools = std::make_shared<const Json>(Json::parse(
        R"([{"type":"function","function":{"name":"f","parameters":{"properties":{"s":{"type":"string"},"n":{"type":"integer"}}}}}])"));
    const auto calls = lists ? ReplyFormat::Calls::json_list : ReplyFormat::Calls::qwen_xml;
    ReplyReader reader({"<think>", "</think>", calls}, thinking ? "<think>\n" : "", tools);
    Meaning meaning;
    for (std::size_t at = 0; at < text.size(); at += piece) add(meaning, reader.push(text.substr(at, piece)));
    add(meaning, reader.finish());
    return meaning;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const std::string text = repair_utf8({reinterpret_cast<const char*>(data + 1), size - 1});
    const bool thinking = data[0] & 1, lists = data[0] & 128;
    const Meaning whole = read(text, thinking, lists, text.size() + 1);
    CHECK(whole == read(text, thinking, lists, 1 + data[0] % 128 / 2));
    CHECK(whole.ended == whole.names.size());
    for (const auto& [call, arguments] : whole.arguments) CHECK(Json::accept(arguments));
    return 0;
}

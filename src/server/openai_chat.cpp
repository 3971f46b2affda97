// /v1/chat/completions: a conversation in, its continuation out, whole or as a stream of chunks.
// Source: the OpenAI API reference, "Chat completions"; `reasoning_content` as DeepSeek's API writes it.

#include <ctime>
#include <nlohmann/json.hpp>

#include "server/openai.h"
#include "server/openai_request.h"

namespace kapitsa {
namespace {

using Kind = ReplyPiece::Kind;

Json logprob_entry(const std::string& bytes, float logprob) {
    Json numbers = Json::array();
    for (const char byte : bytes) numbers.push_back(static_cast<unsigned char>(byte));
    return {{"token", bytes}, {"logprob", openai_logprob(logprob)}, {"bytes", std::move(numbers)}};
}

Json logprobs_json(const std::vector<TokenLogprob>& logprobs) {
    Json content = Json::array();
    for (const TokenLogprob& token : logprobs) {
        Json entry = logprob_entry(token.bytes, token.logprob);
        entry["top_logprobs"] = Json::array();
        for (const auto& other : token.top)
            entry["top_logprobs"].push_back(logprob_entry(other.bytes, other.logprob));
        content.push_back(std::move(entry));
    }
    return {{"content", std::move(content)}, {"refusal", nullptr}};
}

class ChatAnswer : public Answer {
public:
    ChatAnswer(ModelService& model, const ReplySettings& settings, const char* object)
        : generation(model),
          head_{random_id("chatcmpl-"), object, model.name(), std::time(nullptr)},
          logprobs_(settings.sampling.logprobs) {}

    void cut() override { generation.cut(streams()); }
    std::string keep_alive() const override { return openai_keep_alive; }

    Generation generation;

protected:
    const OpenAiHead head_;
    const bool logprobs_;
};

/// One chunk a piece.
class StreamedChat final : public ChatAnswer {
public:
    StreamedChat(ModelService& model, const ReplySettings& settings)
        : ChatAnswer(model, settings, "chat.completion.chunk"),
          include_usage_(settings.include_usage),
          waiting_logprobs_(settings.choices) {}

    bool streams() const override { return true; }
    bool finished() const override { return finished_; }
    HttpResponse response() override { return {}; }

    std::vector<std::string> advance() override {
        std::vector<std::string> events;
        if (!std::exchange(begun_, true))
            for (std::size_t i = 0; i < generation.choices(); ++i)
                events.push_back(chunk(i, {{"role", "assistant"}, {"content", ""}}, nullptr, false));
        for (Heard& heard : generation.advance()) say(heard, events);
        if (finished_) return events;
        finished_ = generation.error() || generation.ended();
        if (finished_) openai_end_stream(head_, generation, generation.choices(), include_usage_, events);
        return events;
    }

private:
    void say(Heard& heard, std::vector<std::string>& events) {
        auto& logprobs = waiting_logprobs_[heard.choice];
        std::move(heard.logprobs.begin(), heard.logprobs.end(), std::back_inserter(logprobs));
        for (ReplyPiece& piece : heard.pieces) {
            const bool content = piece.kind == Kind::content;
            if (Json delta = to_delta(piece); !delta.is_null())
                events.push_back(chunk(heard.choice, std::move(delta), content ? &logprobs : nullptr, false));
        }
        if (heard.ended && !generation.error())
            events.push_back(chunk(heard.choice, Json::object(), &logprobs, true));
    }

    /// Null where a piece has nothing to say in this form.
    static Json to_delta(ReplyPiece& piece) {
        switch (piece.kind) {
            case Kind::reasoning: return {{"reasoning_content", std::move(piece.text)}};
            case Kind::content: return {{"content", std::move(piece.text)}};
            case Kind::call_begins:
                return {
                    {"tool_calls",
                     Json::array({{{"index", piece.call},
                                   {"id", random_id("call_")},
                                   {"type", "function"},
                                   {"function", {{"name", std::move(piece.name)}, {"arguments", ""}}}}})}};
            case Kind::call_arguments:
                return {
                    {"tool_calls", Json::array({{{"index", piece.call},
                                                 {"function", {{"arguments", std::move(piece.text)}}}}})}};
            case Kind::call_ends: return nullptr;
        }
        return nullptr;
    }

    std::string chunk(std::size_t choice, Json delta, std::vector<TokenLogprob>* logprobs, bool ends) {
        Json json = openai_envelope(head_);
        Json said = nullptr;
        if (logprobs_ && logprobs && !logprobs->empty()) said = logprobs_json(std::exchange(*logprobs, {}));
        Json reason = nullptr;
        if (ends) reason = openai_finish_reason(generation.reply(choice).end());
        json["choices"].push_back({{"index", choice},
                                   {"delta", std::move(delta)},
                                   {"logprobs", std::move(said)},
                                   {"finish_reason", std::move(reason)}});
        if (include_usage_) json["usage"] = nullptr;
        if (ends && !include_usage_ && generation.ended())
            json["timings"] = openai_timings(generation, generation.choices());
        return sse_event(dump_json(json));
    }

    const bool include_usage_;
    bool begun_ = false, finished_ = false;
    std::vector<std::vector<TokenLogprob>>
        waiting_logprobs_;  // [choices] until there is content to carry them
};

/// The same, collected.
class WholeChat final : public ChatAnswer {
public:
    WholeChat(ModelService& model, const ReplySettings& settings)
        : ChatAnswer(model, settings, "chat.completion"), said_(settings.choices) {}

    bool streams() const override { return false; }
    bool finished() const override { return generation.error() || generation.ended(); }

    std::vector<std::string> advance() override {
        for (Heard& heard : generation.advance()) {
            Said& said = said_[heard.choice];
            for (ReplyPiece& piece : heard.pieces) said.add(piece);
            std::move(heard.logprobs.begin(), heard.logprobs.end(), std::back_inserter(said.logprobs));
        }
        return {};
    }

    HttpResponse response() override {
        if (const Error* error = generation.error()) return openai_error(api_error(*error));
        Json json = openai_envelope(head_);
        for (std::size_t i = 0; i < said_.size(); ++i) {
            Json logprobs = nullptr;
            if (logprobs_) logprobs = logprobs_json(said_[i].logprobs);
            json["choices"].push_back({{"index", i},
                                       {"message", said_[i].message()},
                                       {"logprobs", std::move(logprobs)},
                                       {"finish_reason", openai_finish_reason(generation.reply(i).end())}});
        }
        json["usage"] = openai_usage(generation, generation.choices());
        json["timings"] = openai_timings(generation, generation.choices());
        return {200, dump_json(json)};
    }

private:
    struct Said {
        std::string content, reasoning;
        std::vector<ToolCall> calls;
        std::vector<TokenLogprob> logprobs;

        void add(ReplyPiece& piece) {
            if (piece.kind == Kind::content) content += piece.text;
            if (piece.kind == Kind::reasoning) reasoning += piece.text;
            if (piece.kind == Kind::call_begins) calls.push_back({random_id("call_"), piece.name, ""});
            if (piece.kind == Kind::call_arguments && !calls.empty()) calls.back().arguments += piece.text;
        }

        Json message() const {
            Json message{{"role", "assistant"}, {"content", content}};
            if (content.empty() && !calls.empty()) message["content"] = nullptr;
            if (!reasoning.empty()) message["reasoning_content"] = reasoning;
            for (const ToolCall& call : calls)
                message["tool_calls"].push_back(
                    {{"id", call.id},
                     {"type", "function"},
                     {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
            return message;
        }
    };
    std::vector<Said> said_;  // [choices]
};

Parsed<std::unique_ptr<Answer>> begin_chat(ModelService& model, const HttpRequest& http, const Wake& wake) {
    const Json body = TRY(openai_body(http));
    ChatRequest request = TRY(parse_chat_request(body, {model.sampling(), model.info().vocabulary}));
    ReplySettings& settings = request.settings;
    TRY(check_model(model, settings.model));
    auto prompt = model.prompt(request.conversation);
    if (!prompt) {
        ApiError error = api_error(prompt.error());
        error.param = "messages";
        return std::unexpected(std::move(error));
    }
    TRY(check_room(model, *prompt, "messages"));

    std::unique_ptr<ChatAnswer> answer;
    if (settings.stream)
        answer = std::make_unique<StreamedChat>(model, settings);
    else
        answer = std::make_unique<WholeChat>(model, settings);
    const std::uint64_t seed = settings.seed ? *settings.seed : random_number();
    for (std::uint32_t choice = 0; choice < settings.choices; ++choice) {
        ReplyRequest reply{
            .prompt = prompt->tokens, .max_tokens = settings.max_tokens, .sampling = settings.sampling};
        reply.sampling.seed = seed + choice;
        TRY(answer->generation.add(std::move(reply),
                                   {.reader = model.reader(*prompt, request.conversation.tools),
                                    .stops = settings.stops,
                                    .logprobs = settings.sampling.logprobs},
                                   wake));
    }
    return answer;
}

}  // namespace

Handled openai_chat(ModelService& model, const HttpRequest& request, const Wake& wake) {
    auto answer = begin_chat(model, request, wake);
    if (!answer) return openai_error(answer.error());
    return std::move(*answer);
}

}  // namespace kapitsa

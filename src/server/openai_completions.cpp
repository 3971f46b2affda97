// /v1/completions: text in, its continuation out. The text is taken as it stands, with no template.
// Source: the OpenAI API reference, "Completions".

#include <ctime>
#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "server/openai.h"
#include "server/openai_request.h"

namespace kapitsa {
namespace {

class CompletionAnswer final : public Answer {
public:
    CompletionAnswer(ModelService& model, const ReplySettings& settings, std::size_t answers)
        : generation(model),
          head_{random_id("cmpl-"), "text_completion", model.name(), std::time(nullptr)},
          stream_(settings.stream),
          include_usage_(settings.include_usage),
          logprobs_(settings.sampling.logprobs),
          choices_(settings.choices),
          said_(answers) {}

    bool streams() const override { return stream_; }
    bool finished() const override { return finished_; }
    void cut() override { generation.cut(stream_); }
    std::string keep_alive() const override { return openai_keep_alive; }

    std::vector<std::string> advance() override {
        std::vector<std::string> events;
        for (Heard& heard : generation.advance()) {
            Said& said = said_[heard.choice];
            for (ReplyPiece& piece : heard.pieces) said.text += piece.text;
            std::move(heard.logprobs.begin(), heard.logprobs.end(), std::back_inserter(said.logprobs));
            if (!stream_ || generation.error() || (said.text.empty() && !heard.ended)) continue;
            Json json = openai_envelope(head_);
            json["choices"].push_back(choice_json(heard.choice, heard.ended));
            said.clear();
            if (include_usage_) json["usage"] = nullptr;
            if (heard.ended && generation.ended() && !include_usage_)
                json["timings"] = openai_timings(generation, choices_);
            events.push_back(sse_event(dump_json(json)));
        }
        if (finished_) return events;
        finished_ = generation.error() || generation.ended();
        if (stream_ && finished_) openai_end_stream(head_, generation, choices_, include_usage_, events);
        return events;
    }

    HttpResponse response() override {
        if (const Error* error = generation.error()) return openai_error(api_error(*error));
        Json json = openai_envelope(head_);
        for (std::size_t i = 0; i < said_.size(); ++i) json["choices"].push_back(choice_json(i, true));
        json["usage"] = openai_usage(generation, choices_);
        json["timings"] = openai_timings(generation, choices_);
        return {200, dump_json(json)};
    }

    Generation generation;

private:
    struct Said {
        std::string text;
        std::vector<TokenLogprob> logprobs;
        std::size_t offset = 0;  // of the next token in the text so far, in characters

        void clear() {
            text.clear();
            logprobs.clear();
        }
    };

    Json choice_json(std::size_t choice, bool ended) {
        Json logprobs = nullptr;
        if (logprobs_) logprobs = logprobs_json(said_[choice]);
        Json reason = nullptr;
        if (ended) reason = openai_finish_reason(generation.reply(choice).end());
        return {{"text", said_[choice].text},
                {"index", choice},
                {"logprobs", std::move(logprobs)},
                {"finish_reason", std::move(reason)}};
    }

    static Json logprobs_json(Said& said) {
        Json tokens = Json::array(), values = Json::array(), top = Json::array(), offsets = Json::array();
        for (const TokenLogprob& token : said.logprobs) {
            const std::string text = repair_utf8(token.bytes);
            tokens.push_back(text);
            values.push_back(openai_logprob(token.logprob));
            Json best = Json::object();
            for (const auto& other : token.top)
                best[repair_utf8(other.bytes)] = openai_logprob(other.logprob);
            top.push_back(std::move(best));
            offsets.push_back(said.offset);
            for (const char byte : text) said.offset += (byte & 0xC0) != 0x80;
        }
        return {{"tokens", std::move(tokens)},
                {"token_logprobs", std::move(values)},
                {"top_logprobs", std::move(top)},
                {"text_offset", std::move(offsets)}};
    }

    const OpenAiHead head_;
    const bool stream_, include_usage_, logprobs_;
    const std::size_t choices_;  // to each prompt
    std::vector<Said> said_;     // [prompts * choices] what has not gone out
    bool finished_ = false;
};

Parsed<std::unique_ptr<Answer>> begin_completion(ModelService& model, const HttpRequest& http,
                                                 const Wake& wake) {
    const Json body = TRY(openai_body(http));
    CompletionRequest request =
        TRY(parse_completion_request(body, {model.sampling(), model.info().vocabulary}));
    const ReplySettings& settings = request.settings;
    TRY(check_model(model, settings.model));
    std::vector<Prompt> prompts;
    for (auto& given : request.prompts) {
        if (auto* text = std::get_if<std::string>(&given))
            prompts.push_back(model.raw_prompt(std::move(*text)));
        else
            prompts.push_back({"", std::move(std::get<std::vector<Token>>(given))});
        if (prompts.back().tokens.empty()) return bad_field("prompt", "prompt is empty");
        TRY(check_room(model, prompts.back(), "prompt"));
    }

    auto answer = std::make_unique<CompletionAnswer>(model, settings, prompts.size() * settings.choices);
    for (const Prompt& prompt : prompts) {
        const std::uint64_t seed = settings.seed ? *settings.seed : random_number();  // equal prompts differ
        for (std::uint32_t choice = 0; choice < settings.choices; ++choice) {
            ReplyRequest reply{
                .prompt = prompt.tokens, .max_tokens = settings.max_tokens, .sampling = settings.sampling};
            reply.sampling.seed = seed + choice;
            TRY(answer->generation.add(
                std::move(reply),
                {.reader = std::nullopt, .stops = settings.stops, .logprobs = settings.sampling.logprobs},
                wake));
        }
    }
    return answer;
}

}  // namespace

Handled openai_completions(ModelService& model, const HttpRequest& request, const Wake& wake) {
    auto answer = begin_completion(model, request, wake);
    if (!answer) return openai_error(answer.error());
    return std::move(*answer);
}

}  // namespace kapitsa

#include "server/openai.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace kapitsa {
namespace {

double rate(double tokens, double seconds) { return seconds > 0 ? tokens / seconds : 0; }

Json model_entry(const ModelService& model) {
    const std::uint32_t context = model.context();
    return {{"id", model.name()},    {"object", "model"},         {"created", model.created()},
            {"owned_by", "kapitsa"}, {"context_length", context}, {"max_model_len", context}};
}

}  // namespace

Json openai_envelope(const OpenAiHead& head) {
    return {{"id", head.id},
            {"object", head.object},
            {"created", head.created},
            {"model", head.model},
            {"system_fingerprint", "fp_kapitsa"},
            {"choices", Json::array()}};
}

const char* openai_finish_reason(ReplyEnd end) {
    switch (end) {
        case ReplyEnd::stop: return "stop";
        case ReplyEnd::tool_calls: return "tool_calls";
        case ReplyEnd::length: return "length";
    }
    return "stop";
}

Json openai_usage(const Generation& generation, std::size_t prompt_choices) {
    std::uint64_t prompt = 0, cached = 0, reply = 0, reasoning = 0;
    for (std::size_t i = 0; i < generation.choices(); ++i) {
        const ReplyUsage usage = generation.reply(i).usage();
        if (i % prompt_choices == 0) {
            prompt += generation.prompt_tokens(i);
            cached += usage.cached_tokens;
        }
        reply += usage.reply_tokens;
        reasoning += usage.reasoning_tokens;
    }
    return {{"prompt_tokens", prompt},
            {"completion_tokens", reply},
            {"total_tokens", prompt + reply},
            {"prompt_tokens_details", {{"cached_tokens", cached}}},
            {"completion_tokens_details", {{"reasoning_tokens", reasoning}}}};
}

Json openai_timings(const Generation& generation, std::size_t prompt_choices) {
    // Answers run side by side: their tokens add up, their seconds do not.
    double queue = 0, prefill = 0, decode = 0, computed = 0, reply = 0, decoded = 0;
    for (std::size_t i = 0; i < generation.choices(); ++i) {
        const ReplyTimings timings = generation.reply(i).timings();
        const ReplyUsage usage = generation.reply(i).usage();
        queue = std::max(queue, timings.queue_seconds);
        prefill = std::max(prefill, timings.prefill_seconds);
        decode = std::max(decode, timings.decode_seconds);
        computed += generation.prompt_tokens(i) - std::min(usage.cached_tokens, generation.prompt_tokens(i));
        reply += usage.reply_tokens;
        decoded += std::max(usage.reply_tokens, 1u) - 1;  // the first one came of the prompt
    }
    const Json usage = openai_usage(generation, prompt_choices);
    return {{"prompt_tokens", usage["prompt_tokens"]},
            {"cached_tokens", usage["prompt_tokens_details"]["cached_tokens"]},
            {"completion_tokens", static_cast<std::uint64_t>(reply)},
            {"queue_s", queue},
            {"prefill_s", prefill},
            {"decode_s", decode},
            {"prefill_tokens_per_s", rate(computed, prefill)},
            {"decode_tokens_per_s", rate(decoded, decode)}};
}

void openai_end_stream(const OpenAiHead& head, const Generation& generation, std::size_t prompt_choices,
                       bool include_usage, std::vector<std::string>& events) {
    if (const Error* error = generation.error()) {
        events.push_back(sse_event(openai_error_body(api_error(*error))));
        return;
    }
    if (include_usage) {
        Json last = openai_envelope(head);
        last["usage"] = openai_usage(generation, prompt_choices);
        last["timings"] = openai_timings(generation, prompt_choices);
        events.push_back(sse_event(dump_json(last)));
    }
    events.push_back(sse_event("[DONE]"));
}

float openai_logprob(float logprob) { return logprob > -9999.0f ? logprob : -9999.0f; }

Parsed<Json> openai_body(const HttpRequest& request) {
    const auto encoding = request.header("Content-Encoding");
    if (!encoding.empty() && encoding != "identity")
        return std::unexpected(
            ApiError{415, "bodies with a Content-Encoding are not taken; send plain JSON"});
    if (request.body.empty()) return std::unexpected(ApiError{400, "the body is empty: send a JSON object"});
    auto json = parse_json(request.body);
    if (!json) return std::unexpected(ApiError{400, std::move(json.error()).because("the body").message});
    return std::move(*json);
}

HttpResponse openai_models(const ModelService& model) {
    return {200, dump_json(Json{{"object", "list"}, {"data", Json::array({model_entry(model)})}})};
}

HttpResponse openai_model(const ModelService& model, const std::string& id) {
    if (const auto known = check_model(model, id); !known) return openai_error(known.error());
    return {200, dump_json(model_entry(model))};
}

}  // namespace kapitsa

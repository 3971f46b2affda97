// The OpenAI dialect: what each path answers, and the forms its answers share.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "server/generation.h"
#include "server/http.h"
#include "server/model_service.h"

namespace kapitsa {

using Wake = std::function<void()>;

Handled openai_chat(ModelService& model, const HttpRequest& request, const Wake& wake);
Handled openai_completions(ModelService& model, const HttpRequest& request, const Wake& wake);
HttpResponse openai_models(const ModelService& model);
HttpResponse openai_model(const ModelService& model, const std::string& id);

/// What all parts of one answer repeat.
struct OpenAiHead {
    std::string id, object, model;
    std::int64_t created;
};

/// {"id", "object", "created", "model", "system_fingerprint", "choices": []}
Json openai_envelope(const OpenAiHead& head);
const char* openai_finish_reason(ReplyEnd end);
/// `prompt_choices`: each prompt counts once, however many answers it has; the first of them is at a multiple
/// of this.
Json openai_usage(const Generation& generation, std::size_t prompt_choices);
/// How long it took and how fast it was; an extension that clients ignore.
Json openai_timings(const Generation& generation, std::size_t prompt_choices);
/// What ends a stream: the error of the generation, or usage (where it was asked for) and "[DONE]".
void openai_end_stream(const OpenAiHead& head, const Generation& generation, std::size_t prompt_choices,
                       bool include_usage, std::vector<std::string>& events);
/// What a silent stream says. Events of the API would count as content somewhere.
constexpr const char* openai_keep_alive = ": keep-alive\n\n";
/// A logarithm that JSON can hold: the API writes -9999 for what cannot happen.
float openai_logprob(float logprob);

/// The body, if it is JSON in no encoding that we would have to undo.
Parsed<Json> openai_body(const HttpRequest& request);

}  // namespace kapitsa

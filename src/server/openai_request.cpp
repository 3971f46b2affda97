#include "server/openai_request.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "server/json_fields.h"

namespace kapitsa {
namespace {

constexpr std::size_t messages_most = 65'536, tools_most = 1024, stops_most = 16, stop_bytes_most = 1024;
constexpr std::size_t biases_most = 1024, prompts_most = 16, top_logprobs_most = 20, name_bytes_most = 256;
constexpr std::uint32_t choices_most = 8;
constexpr std::int64_t tokens_most = INT32_MAX;

/// Overwrites `value` where the field is set.
template <typename Number>
Parsed<Done> set_number(const Fields& body, const char* key, double least, double most, Number& value) {
    if (const auto number = TRY(body.number(key, least, most))) value = static_cast<Number>(*number);
    return Done{};
}

std::string no_token(std::uint32_t vocabulary) {
    return "is not a token of this model; those are the integers from 0 to " + std::to_string(vocabulary - 1);
}

Parsed<Done> parse_logit_bias(const Fields& body, std::uint32_t vocabulary, Sampling& sampling) {
    const Json* biases = TRY(body.object("logit_bias"));
    if (!biases) return Done{};
    if (biases->size() > biases_most)
        return bad_field("logit_bias", "logit_bias has more than " + std::to_string(biases_most) + " tokens");
    const Fields fields(*biases, "logit_bias");
    for (const auto& [key, value] : biases->items()) {
        Token token = -1;
        const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token);
        if (error != std::errc() || end != key.data() + key.size() || token < 0 ||
            std::uint32_t(token) >= vocabulary)
            return bad_field(fields.path(excerpt(key)),
                             "logit_bias: \"" + excerpt(key) + "\" " + no_token(vocabulary));
        if (const auto bias = TRY(fields.number(key.c_str(), -100, 100)))
            sampling.logit_bias.emplace_back(token, static_cast<float>(*bias));
    }
    return Done{};
}

/// Any integer of 64 bits is a seed, negative ones too.
Parsed<std::optional<std::uint64_t>> parse_seed(const Fields& body) {
    const Json* seed = body.find("seed");
    if (!seed) return std::nullopt;
    if (seed->is_number_unsigned()) return seed->get<std::uint64_t>();
    if (const auto number = body.integer("seed", INT64_MIN, INT64_MAX))
        return static_cast<std::uint64_t>(**number);
    return bad_field("seed", "seed must be an integer from " + std::to_string(INT64_MIN) + " to " +
                                 std::to_string(UINT64_MAX));
}

Parsed<Sampling> parse_sampling(const Fields& body, const ModelFacts& model) {
    Sampling sampling = model.sampling;
    TRY(set_number(body, "temperature", 0, 2, sampling.temperature));
    TRY(set_number(body, "top_p", 0, 1, sampling.top_p));
    TRY(set_number(body, "min_p", 0, 1, sampling.min_p));
    TRY(set_number(body, "presence_penalty", -2, 2, sampling.presence_penalty));
    TRY(set_number(body, "frequency_penalty", -2, 2, sampling.frequency_penalty));
    TRY(set_number(body, "repetition_penalty", 0.01, 10, sampling.repetition_penalty));
    // -1 is "all of them" in some APIs, 0 in others.
    if (const auto top_k = TRY(body.integer("top_k", -1, tokens_most)))
        sampling.top_k = *top_k < 0 ? 0 : static_cast<std::uint32_t>(*top_k);
    TRY(parse_logit_bias(body, model.vocabulary, sampling));
    return sampling;
}

/// Adds a stop string. An empty one, which clients send for "none", stops nothing.
Parsed<Done> add_stop(const Json& stop, const std::string& path, std::vector<std::string>& stops) {
    if (!stop.is_string()) return bad_field(path, path + " must be a string, not " + stop.type_name());
    auto text = stop.get<std::string>();
    if (text.size() > stop_bytes_most)
        return bad_field(path, path + " has more than " + std::to_string(stop_bytes_most) + " bytes");
    if (!text.empty()) stops.push_back(std::move(text));
    return Done{};
}

Parsed<std::vector<std::string>> parse_stops(const Fields& body) {
    std::vector<std::string> stops;
    const Json* stop = body.find("stop");
    if (!stop) return stops;
    if (!stop->is_array()) {
        TRY(add_stop(*stop, "stop", stops));
        return stops;
    }
    (void)TRY(body.array("stop", stops_most));
    for (std::size_t i = 0; i < stop->size(); ++i) TRY(add_stop((*stop)[i], element_path("stop", i), stops));
    return stops;
}

Parsed<ReplySettings> parse_settings(const Fields& body, const ModelFacts& model) {
    ReplySettings settings;
    settings.model = TRY(body.string("model")).value_or("");
    settings.stream = TRY(body.boolean("stream")).value_or(false);
    if (const Json* options = TRY(body.object("stream_options")))
        settings.include_usage =
            TRY(Fields(*options, "stream_options").boolean("include_usage")).value_or(false);
    settings.sampling = TRY(parse_sampling(body, model));
    settings.seed = TRY(parse_seed(body));
    settings.stops = TRY(parse_stops(body));
    settings.choices = static_cast<std::uint32_t>(TRY(body.integer("n", 1, choices_most)).value_or(1));
    if (const auto tokens = TRY(body.integer("max_tokens", 1, INT64_MAX)))
        settings.max_tokens = static_cast<std::uint32_t>(std::min(*tokens, tokens_most));
    return settings;
}

std::unexpected<ApiError> unsupported(const char* key, std::string message) {
    return bad_field(key, std::move(message), "unsupported");
}

Parsed<Done> check_tool(const Json& tool, const std::string& path) {
    if (!tool.is_object()) return bad_field(path, path + " must be an object");
    const Fields fields(tool, path);
    const auto type = TRY(fields.string("type"));
    if (type && *type != "function")
        return bad_field(fields.path("type"),
                         fields.path("type") + " is \"" + excerpt(*type) + "\"; tools are functions here",
                         "unsupported");
    const Json* function = TRY(fields.object("function"));
    if (!function) return bad_field(fields.path("function"), fields.path("function") + " is missing");
    const Fields inner(*function, fields.path("function"));
    const auto name = TRY(inner.string("name")).value_or("");
    if (name.empty()) return bad_field(inner.path("name"), inner.path("name") + " is missing");
    if (name.size() > name_bytes_most)
        return bad_field(inner.path("name"),
                         inner.path("name") + " has more than " + std::to_string(name_bytes_most) + " bytes");
    (void)TRY(inner.string("description"));
    (void)TRY(inner.object("parameters"));
    return Done{};
}

/// The tools that may be called, or null. With tool_choice "none" the model is not shown any.
Parsed<std::shared_ptr<const Json>> parse_tools(const Fields& body) {
    for (const char* old : {"functions", "function_call"})
        if (body.find(old))
            return unsupported(old,
                               "functions and function_call have been replaced by tools and tool_choice");
    const Json* tools = TRY(body.array("tools", tools_most));
    for (std::size_t i = 0; tools && i < tools->size(); ++i)
        TRY(check_tool((*tools)[i], element_path("tools", i)));
    (void)TRY(body.boolean("parallel_tool_calls"));
    const Json* choice = body.find("tool_choice");
    if (choice && !choice->is_string() && !choice->is_object())
        return bad_field("tool_choice", "tool_choice must be a string or an object");
    if (choice && (choice->is_object() || *choice == "required"))
        return unsupported("tool_choice",
                           "tool_choice: a call cannot be forced yet; use \"auto\" or \"none\"");
    if (choice && *choice != "auto" && *choice != "none")
        return bad_field("tool_choice", "tool_choice must be \"auto\" or \"none\"");
    if (!tools || tools->empty() || (choice && *choice == "none")) return nullptr;
    return std::make_shared<const Json>(*tools);
}

Parsed<Done> check_response_format(const Fields& body) {
    const Json* format = TRY(body.object("response_format"));
    if (!format) return Done{};
    const auto type = TRY(Fields(*format, "response_format").string("type")).value_or("");
    if (type == "text") return Done{};
    if (type == "json_object" || type == "json_schema")
        return unsupported("response_format",
                           "response_format \"" + type + "\" is not supported yet; ask for text");
    return bad_field("response_format.type", "response_format.type must be \"text\"");
}

/// What the template is told beside the conversation, or null.
Parsed<std::shared_ptr<const Json>> parse_variables(const Fields& body) {
    Json variables = Json::object();
    if (const Json* given = TRY(body.object("chat_template_kwargs"))) {
        for (const char* ours : {"messages", "tools", "add_generation_prompt", "bos_token", "eos_token"})
            if (given->contains(ours))
                return bad_field(std::string("chat_template_kwargs.") + ours,
                                 std::string("chat_template_kwargs.") + ours + " is for the server to set");
        variables = *given;
    }
    if (const auto thinking = TRY(body.boolean("enable_thinking"))) variables["enable_thinking"] = *thinking;
    if (auto effort = TRY(body.string("reasoning_effort")))
        variables["reasoning_effort"] = std::move(*effort);
    if (variables.empty()) return nullptr;
    return std::make_shared<const Json>(std::move(variables));
}

Parsed<Done> parse_chat_logprobs(const Fields& body, Sampling& sampling) {
    sampling.logprobs = TRY(body.boolean("logprobs")).value_or(false);
    const auto top = TRY(body.integer("top_logprobs", 0, top_logprobs_most));
    if (top && *top > 0 && !sampling.logprobs)
        return bad_field("top_logprobs", "top_logprobs needs logprobs to be true");
    sampling.top_logprobs = static_cast<std::uint32_t>(top.value_or(0));
    return Done{};
}

using CompletionPrompt = std::variant<std::string, std::vector<Token>>;

Parsed<std::vector<Token>> parse_tokens(const Json& array, const std::string& path,
                                        std::uint32_t vocabulary) {
    std::vector<Token> tokens;
    tokens.reserve(array.size());
    for (std::size_t i = 0; i < array.size(); ++i) {
        const Json& id = array[i];
        if (!id.is_number_integer() || id.get<double>() < 0 || id.get<double>() >= vocabulary)
            return bad_field(element_path(path, i), element_path(path, i) + " " + no_token(vocabulary));
        tokens.push_back(id.get<Token>());
    }
    return tokens;
}

Parsed<std::vector<CompletionPrompt>> parse_prompts(const Fields& body, std::uint32_t vocabulary) {
    const Json* prompt = body.find("prompt");
    if (!prompt) return bad_field("prompt", "prompt is missing");
    std::vector<CompletionPrompt> prompts;
    if (prompt->is_string()) {
        prompts.emplace_back(prompt->get<std::string>());
        return prompts;
    }
    if (!prompt->is_array())
        return bad_field("prompt", "prompt must be a string, an array of strings or an array of tokens");
    if (prompt->empty()) return bad_field("prompt", "prompt is empty");
    if ((*prompt)[0].is_number()) {
        prompts.emplace_back(TRY(parse_tokens(*prompt, "prompt", vocabulary)));
        return prompts;
    }
    (void)TRY(body.array("prompt", prompts_most));
    for (std::size_t i = 0; i < prompt->size(); ++i) {
        const Json& one = (*prompt)[i];
        if (one.is_string())
            prompts.emplace_back(one.get<std::string>());
        else if (one.is_array())
            prompts.emplace_back(TRY(parse_tokens(one, element_path("prompt", i), vocabulary)));
        else
            return bad_field(element_path("prompt", i),
                             element_path("prompt", i) + " must be a string or an array of tokens");
    }
    return prompts;
}

Parsed<Done> require_object(const Json& body) {
    if (!body.is_object()) return std::unexpected(ApiError{400, "the body must be a JSON object"});
    return Done{};
}

}  // namespace

Parsed<ChatRequest> parse_chat_request(const Json& json, const ModelFacts& model) {
    TRY(require_object(json));
    const Fields body(json);
    ChatRequest request;
    request.settings = TRY(parse_settings(body, model));
    if (const auto tokens = TRY(body.integer("max_completion_tokens", 1, INT64_MAX)))
        request.settings.max_tokens = static_cast<std::uint32_t>(std::min(*tokens, tokens_most));
    TRY(parse_chat_logprobs(body, request.settings.sampling));
    TRY(check_response_format(body));
    request.conversation.tools = TRY(parse_tools(body));
    request.conversation.variables = TRY(parse_variables(body));
    const Json* messages = TRY(body.array("messages", messages_most));
    if (!messages) return bad_field("messages", "messages is missing");
    if (messages->empty()) return bad_field("messages", "messages is empty");
    request.conversation.messages = TRY(parse_messages(*messages));
    return request;
}

Parsed<CompletionRequest> parse_completion_request(const Json& json, const ModelFacts& model) {
    TRY(require_object(json));
    const Fields body(json);
    CompletionRequest request;
    request.settings = TRY(parse_settings(body, model));
    if (request.settings.max_tokens == 0) request.settings.max_tokens = 16;  // the API's default
    Sampling& sampling = request.settings.sampling;
    if (const auto logprobs = TRY(body.integer("logprobs", 0, top_logprobs_most))) {
        sampling.logprobs = true;
        sampling.top_logprobs = static_cast<std::uint32_t>(*logprobs);
    }
    if (TRY(body.boolean("echo")).value_or(false)) return unsupported("echo", "echo is not supported yet");
    if (const auto suffix = TRY(body.string("suffix")); suffix && !suffix->empty())
        return unsupported("suffix", "suffix is not supported yet");
    const auto best_of = TRY(body.integer("best_of", 1, INT32_MAX));
    if (best_of && *best_of != request.settings.choices)
        return unsupported("best_of", "best_of is not supported; use n");
    request.prompts = TRY(parse_prompts(body, model.vocabulary));
    if (request.prompts.size() * request.settings.choices > 32)
        return bad_field("n", "n times the prompts is more than 32 answers");
    return request;
}

}  // namespace kapitsa

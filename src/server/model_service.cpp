#include "server/model_service.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace kapitsa {
namespace {

std::string_view last_component(std::string_view path) {
    while (path.ends_with('/')) path.remove_suffix(1);
    const auto slash = path.rfind('/');
    return slash == path.npos ? path : path.substr(slash + 1);
}

/// Reads a number of generation_config.json into `value`; leaves it where the file says nothing or null.
template <typename Number>
Status read_number(const Json& file, const char* key, double least, double most, Number& value) {
    const auto found = file.find(key);
    if (found == file.end() || found->is_null()) return Done{};
    const double number = found->is_number() ? found->get<double>() : NAN;
    if (!(number >= least && number <= most))
        return fail(Fault::corrupt_file, "generation_config.json: " + std::string(key) +
                                             " is not a number from " + std::to_string(least) + " to " +
                                             std::to_string(most));
    value = static_cast<Number>(number);
    return Done{};
}

Result<Sampling> default_sampling(const Json* file) {
    Sampling sampling;
    if (!file) return sampling;
    TRY(read_number(*file, "temperature", 0, 100, sampling.temperature));
    double top_k = sampling.top_k;
    TRY(read_number(*file, "top_k", -1, 1e9, top_k));
    sampling.top_k = static_cast<std::uint32_t>(std::max(top_k, 0.0));  // -1 and 0: all
    TRY(read_number(*file, "top_p", 0, 1, sampling.top_p));
    TRY(read_number(*file, "min_p", 0, 1, sampling.min_p));
    TRY(read_number(*file, "repetition_penalty", 0.01, 100, sampling.repetition_penalty));
    TRY(read_number(*file, "presence_penalty", -100, 100, sampling.presence_penalty));
    TRY(read_number(*file, "frequency_penalty", -100, 100, sampling.frequency_penalty));
    const auto samples = file->find("do_sample");
    if (samples != file->end() && samples->is_boolean() && !samples->get<bool>()) sampling.temperature = 0;
    return sampling;
}

/// Adds the token ids of `eos_token_id`: one, a list, or null.
Status read_stop_tokens(const Json& file, const std::string& name, std::size_t vocabulary,
                        std::vector<Token>& tokens) {
    const auto found = file.find("eos_token_id");
    if (found == file.end() || found->is_null()) return Done{};
    const auto take = [&](const Json& id) -> Status {
        if (!id.is_number_integer() || id.get<double>() < 0 || id.get<double>() >= double(vocabulary))
            return fail(Fault::corrupt_file, name + ": eos_token_id is not a token of the " +
                                                 std::to_string(vocabulary) + " there are");
        tokens.push_back(id.get<Token>());
        return Done{};
    };
    if (!found->is_array()) return take(*found);
    for (const Json& id : *found) TRY(take(id));
    return Done{};
}

Result<std::vector<Token>> find_stop_tokens(const Checkpoint& checkpoint, const Tokenizer& tokenizer,
                                            std::size_t vocabulary) {
    std::vector<Token> tokens;
    if (checkpoint.config) {
        TRY(read_stop_tokens(*checkpoint.config, "config.json", vocabulary, tokens));
        for (const char* part : {"text_config", "llm_config"}) {
            const auto text = checkpoint.config->find(part);
            if (text != checkpoint.config->end() && text->is_object())
                TRY(read_stop_tokens(*text, "config.json: " + std::string(part), vocabulary, tokens));
        }
    }
    if (checkpoint.generation_config)
        TRY(read_stop_tokens(*checkpoint.generation_config, "generation_config.json", vocabulary, tokens));
    for (const std::string& piece :
         {checkpoint.token_text("eos_token"), std::string("<|im_end|>"), std::string("<|endoftext|>")})
        if (const auto token = piece.empty() ? std::nullopt : tokenizer.find(piece)) tokens.push_back(*token);
    std::sort(tokens.begin(), tokens.end());
    tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
    return tokens;
}

}  // namespace

Result<std::unique_ptr<ModelService>> ModelService::make(const Checkpoint& checkpoint,
                                                         std::unique_ptr<Engine> engine, std::string name) {
    auto tokenizer = Tokenizer::make(TRY(checkpoint.tokenizer()));
    if (!tokenizer) return fail(std::move(tokenizer.error()).because("the tokenizer"));
    const std::size_t vocabulary = engine->info().vocabulary;
    if (tokenizer->vocabulary() > vocabulary)
        return fail(Fault::invalid_input, "the tokenizer has tokens up to " +
                                              std::to_string(tokenizer->vocabulary() - 1) +
                                              ", and the model " + std::to_string(vocabulary) +
                                              " of them: the two are not of one model");
    std::optional<ChatTemplate> chat_template;
    if (!checkpoint.chat_template.empty()) {
        auto parsed = ChatTemplate::parse(checkpoint.chat_template, checkpoint.token_text("bos_token"),
                                          checkpoint.token_text("eos_token"));
        if (!parsed) return fail(std::move(parsed.error()).because("the chat template"));
        chat_template = std::move(*parsed);
    }
    if (name.empty()) name = last_component(checkpoint.path);
    if (name.empty()) name = "model";
    auto stops = TRY(find_stop_tokens(checkpoint, *tokenizer, vocabulary));
    const Sampling sampling = TRY(default_sampling(checkpoint.generation_config.get()));
    Sight sight = Sight::of(checkpoint, engine->info());
    return std::make_unique<ModelService>(Parts{
        .name = std::move(name),
        .tokenizer = std::move(*tokenizer),
        .chat_template = std::move(chat_template),
        .format = reply_format(checkpoint.chat_template),
        .sampling = sampling,
        .stop_tokens = std::move(stops),
        .sight = std::move(sight),
        .engine = std::move(engine),
    });
}

std::uint32_t ModelService::context() const {
    const std::uint64_t held = std::uint64_t(info().pages) * page_tokens;
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(info().context, held));
}

bool ModelService::answers_to(std::string_view name) const {
    return name.empty() || name == "default" || name == parts_.name || name == last_component(parts_.name);
}

Result<Prompt> ModelService::prompt(const Conversation& conversation) const {
    if (!parts_.chat_template)
        return fail(Fault::unsupported, "the model " + parts_.name +
                                            " has no chat template; it completes text (/v1/completions)");
    auto pictures = TRY(parts_.sight.look_at(conversation, context()));
    auto text = parts_.chat_template->render(conversation, true);
    if (!text) return fail(std::move(text.error()).because("the chat template"));
    Prompt prompt = encoded(std::move(*text));
    if (!pictures.empty() && prompt.whole)
        prompt.pictures = TRY(parts_.sight.place(prompt.tokens, std::move(pictures)));
    return prompt;
}

Prompt ModelService::raw_prompt(std::string text) const {
    Prompt prompt = encoded(MarkedText::all_control(std::move(text)));
    std::vector<Token>& tokens = prompt.tokens;
    if (const auto first = parts_.tokenizer.first(); first && (tokens.empty() || tokens.front() != *first))
        tokens.insert(tokens.begin(), *first);
    return prompt;
}

/// Tokens are counted to twice the context, so that clients that shorten their prompts are told by how much;
/// the time it takes is bounded by that, and not by what was sent.
Prompt ModelService::encoded(MarkedText marked) const {
    const std::size_t counted = std::size_t(context()) * 2;
    auto tokens = parts_.tokenizer.encode(marked, counted);
    const bool whole = tokens.size() <= counted;
    return {.text = std::move(marked.text), .tokens = std::move(tokens), .whole = whole};
}

ReplyReader ModelService::reader(const Prompt& prompt, std::shared_ptr<const Json> tools) const {
    ReplyFormat format = parts_.format;
    if (!tools) format.calls = ReplyFormat::Calls::none;
    return {format, prompt.text, std::move(tools)};
}

Result<Ticket> ModelService::submit(ReplyRequest request, std::function<void()> wake) {
    const std::size_t room_tokens = context(), prompt_tokens = request.prompt.size();
    if (prompt_tokens == 0) return fail(Fault::invalid_input, "the prompt has no tokens");
    if (prompt_tokens >= room_tokens)
        return fail(Fault::invalid_input, "the prompt has " + std::to_string(prompt_tokens) +
                                              " tokens, and the context (--ctx) holds " +
                                              std::to_string(room_tokens) + " with the answer: shorten it");
    const auto room = static_cast<std::uint32_t>(room_tokens - prompt_tokens);
    const std::uint32_t tokens = request.max_tokens == 0 ? room : std::min(request.max_tokens, room);
    auto outbox = std::make_shared<Outbox>(outbox_room(prompt_tokens, tokens), std::move(wake));
    Ticket ticket{next_id_.fetch_add(1, std::memory_order_relaxed), tokens, outbox};
    TRY(parts_.engine->submit({
        .id = ticket.id,
        .prompt = std::move(request.prompt),
        .max_tokens = tokens,
        .pictures = std::move(request.pictures),
        .stop_tokens = request.stops ? parts_.stop_tokens : std::vector<Token>{},
        .sampling = std::move(request.sampling),
        .outbox = std::move(outbox),
    }));
    return ticket;
}

void ModelService::cancel(std::uint64_t id, std::uint32_t keep_tokens) {
    parts_.engine->cancel({.id = id, .keep_tokens = keep_tokens});
}

}  // namespace kapitsa

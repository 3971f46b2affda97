#include "server/generation.h"

#include <algorithm>

namespace kapitsa {

Generation::~Generation() {
    for (Choice& choice : choices_) release(choice);
}

/// Gives the engine back what it still computes for this answer.
void Generation::release(Choice& choice) {
    if (!choice.ticket.outbox) return;
    if (choice.reply.engine_runs()) model_->cancel(choice.ticket.id, choice.reply.keep_tokens());
    choice.ticket.outbox = nullptr;
}

Parsed<Done> Generation::add(ReplyRequest request, ReplyOptions options, std::function<void()> wake) {
    const auto prompt_tokens = static_cast<std::uint32_t>(request.prompt.size());
    auto ticket = model_->submit(std::move(request), std::move(wake));
    if (!ticket) return std::unexpected(api_error(ticket.error()));
    choices_.push_back({std::move(*ticket), Reply(model_->tokenizer(), std::move(options)), prompt_tokens});
    return Done{};
}

std::vector<Heard> Generation::advance() {
    std::vector<Heard> all;
    for (Choice& choice : choices_) {
        if (choice.reported) continue;
        Heard heard = advance(choice);
        if (heard.ended || !heard.pieces.empty() || !heard.logprobs.empty()) all.push_back(std::move(heard));
    }
    return all;
}

Heard Generation::advance(Choice& choice) {
    Heard heard{std::size_t(&choice - choices_.data()), {}, {}, false};
    Outbox& outbox = *choice.ticket.outbox;
    while (!choice.reply.ended()) {
        const bool closed = outbox.closed();  // asked first: what was sent before it closed is still there
        auto event = outbox.poll();
        if (!event && !closed) break;
        if (!event) event = Error{Fault::device, "the engine has stopped"};
        append_pieces(choice.reply.take(std::move(*event)), heard.pieces);
    }
    if (cut_ == Cut::where_it_stands && choice.reply.usage().reply_tokens > 0)
        append_pieces(choice.reply.cut(), heard.pieces);
    else if (cut_ != Cut::no)
        choice.reply.fail({Fault::cancelled, "the server is shutting down"});
    heard.logprobs = choice.reply.take_logprobs();
    if (choice.reply.ended()) {
        release(choice);
        choice.reported = heard.ended = true;
    }
    return heard;
}

bool Generation::ended() const {
    return std::ranges::all_of(choices_, [](const Choice& choice) { return choice.reported; });
}

const Error* Generation::error() const {
    for (const Choice& choice : choices_)
        if (choice.reply.error()) return choice.reply.error();
    return nullptr;
}

Parsed<Done> check_room(const ModelService& model, const Prompt& prompt, const char* param) {
    const std::size_t context = model.context(), tokens = prompt.tokens.size();
    if (tokens < context) return Done{};
    return std::unexpected(ApiError{400,
                                    "This model's maximum context length is " + std::to_string(context) +
                                        " tokens, and the prompt has " + (prompt.whole ? "" : "at least ") +
                                        std::to_string(tokens) +
                                        " tokens, which leaves no room for an answer. Shorten the prompt.",
                                    param, "context_length_exceeded"});
}

Parsed<Done> check_model(const ModelService& model, const std::string& name) {
    if (model.answers_to(name)) return Done{};
    return std::unexpected(ApiError{
        404, "The model \"" + excerpt(name) + "\" is not here; this server serves \"" + model.name() + "\".",
        "model", "model_not_found"});
}

}  // namespace kapitsa

// The answers of one request while the engine makes them: several, where a client asked for choices. What a
// dialect adds is only the form. Used by one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "server/api_error.h"
#include "server/model_service.h"
#include "server/reply.h"

namespace kapitsa {

/// What one answer has gained.
struct Heard {
    std::size_t choice;
    std::vector<ReplyPiece> pieces;
    std::vector<TokenLogprob> logprobs;
    bool ended;  // and this was the last
};

class Generation {
public:
    /// `model` must outlive this.
    explicit Generation(ModelService& model) : model_(&model) {}
    Generation(const Generation&) = delete;
    Generation& operator=(const Generation&) = delete;
    /// Cancels what still runs.
    ~Generation();

    /// Asks the engine for one answer more. An error leaves the others as they are.
    Parsed<Done> add(ReplyRequest request, ReplyOptions options, std::function<void()> wake);

    /// Takes what the engine has sent by now. Each answer ends once.
    std::vector<Heard> advance();
    /// Ends every answer, for the server is shutting down; the next `advance` says so. What has been begun
    /// for a client that hears it piece by piece (`streams`) ends with what there is; any other answer is an
    /// error of the fault `cancelled`, since half of it would pass for the whole.
    void cut(bool streams) { cut_ = streams ? Cut::where_it_stands : Cut::all; }

    bool ended() const;
    /// Of the first answer that failed. Null when all is well.
    const Error* error() const;
    const Reply& reply(std::size_t choice) const { return choices_[choice].reply; }
    std::size_t choices() const { return choices_.size(); }
    std::uint32_t prompt_tokens(std::size_t choice) const { return choices_[choice].prompt_tokens; }

private:
    struct Choice {
        Ticket ticket;
        Reply reply;
        std::uint32_t prompt_tokens;
        bool reported = false;  // that it ended
    };
    Heard advance(Choice& choice);
    void release(Choice& choice);

    ModelService* model_;
    std::vector<Choice> choices_;
    enum class Cut { no, where_it_stands, all } cut_ = Cut::no;
};

/// Whether the prompt, which came in the field `param`, leaves room for an answer; else 400 with the code
/// context_length_exceeded.
Parsed<Done> check_room(const ModelService& model, const Prompt& prompt, const char* param);
/// Whether this is the served model; else 404 with the code model_not_found.
Parsed<Done> check_model(const ModelService& model, const std::string& name);

}  // namespace kapitsa

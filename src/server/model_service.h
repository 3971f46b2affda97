// What serves one model: the words around its engine (tokenizer, template, reply format, name, defaults).
// The server and the commands `chat` and `bench` ask it alike. The checkpoint's files are not trusted: what
// does not fit together is an Error that names the file.
#pragma once

#include <atomic>
#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chat/chat_template.h"
#include "chat/conversation.h"
#include "chat/reply_reader.h"
#include "engine/engine.h"
#include "formats/checkpoint.h"
#include "server/sight.h"
#include "text/tokenizer.h"

namespace kapitsa {

/// A prompt, ready for the engine. The text is kept for the reader of the reply, which must know what the
/// template has already opened.
struct Prompt {
    std::string text;
    std::vector<Token> tokens;
    std::vector<PlacedPicture> pictures = {};  // that tokens of it stand for
    bool whole = true;  // false: so far beyond the context that the rest of the text was not counted
};

/// One reply that is wanted of the engine.
struct ReplyRequest {
    std::vector<Token> prompt;
    std::uint32_t max_tokens = 0;  // of the reply; 0, or more than the context leaves: all that it leaves
    std::vector<PlacedPicture> pictures = {};
    Sampling sampling = {};  // start from ModelService::sampling()
    bool stops = true;       // false: stop tokens are like any other (a benchmark wants its length)
};

/// A reply under way. Its outbox ends in Finished or an Error; cancel by id, with ModelService::cancel.
struct Ticket {
    std::uint64_t id = 0;
    std::uint32_t max_tokens = 0;
    std::shared_ptr<Outbox> outbox;
};

/// Any number of threads may use it at once.
class ModelService {
public:
    struct Parts {
        std::string name;
        Tokenizer tokenizer;
        std::optional<ChatTemplate> chat_template;  // a base model has none
        ReplyFormat format;
        Sampling sampling;
        std::vector<Token> stop_tokens;
        Sight sight{};
        std::unique_ptr<Engine> engine;
    };

    /// `name`: what clients call the model; empty: the name of the checkpoint's folder.
    static Result<std::unique_ptr<ModelService>> make(const Checkpoint& checkpoint,
                                                      std::unique_ptr<Engine> engine, std::string name = {});
    explicit ModelService(Parts parts) : parts_(std::move(parts)) {}

    const std::string& name() const { return parts_.name; }
    /// The name, its last path component, "default", and no name at all: one model is served.
    bool answers_to(std::string_view name) const;
    const Tokenizer& tokenizer() const { return parts_.tokenizer; }
    /// The author's defaults, from generation_config.json.
    const Sampling& sampling() const { return parts_.sampling; }
    const std::vector<Token>& stop_tokens() const { return parts_.stop_tokens; }
    const RunnerInfo& info() const { return parts_.engine->info(); }
    /// Tokens that one conversation may hold, the answer included.
    std::uint32_t context() const;
    std::int64_t created() const { return created_; }  // seconds since 1970
    /// Why the model cannot be shown an image; empty where it can.
    const std::string& blind_because() const { return parts_.sight.blind_because(); }
    EngineCounters counters() const { return parts_.engine->counters(); }

    /// The conversation as the template writes it, with the opening of an answer, and its tokens.
    /// Images are decoded and prepared here. Fault::invalid_input with the template's own sentence when it
    /// refuses; Fault::unsupported when the
    /// model has no template.
    Result<Prompt> prompt(const Conversation& conversation) const;
    /// A text taken as it stands; its author may write control tokens. What texts of this model begin with is
    /// put before it, where it is not there.
    Prompt raw_prompt(std::string text) const;

    /// Reads the reply to `prompt`. Without tools (OpenAI form, may be null) nothing is taken for a call.
    ReplyReader reader(const Prompt& prompt, std::shared_ptr<const Json> tools) const;

    /// Hands the request to the engine. `wake` (may be empty) is called on the engine's thread after each
    /// event; it must only post a note. Fault::invalid_input, with both numbers, when the prompt leaves no
    /// room in the context; Fault::out_of_memory when the queue is full.
    Result<Ticket> submit(ReplyRequest request, std::function<void()> wake = {});
    /// `keep_tokens` of the reply were used. Ids that are no longer running are ignored.
    void cancel(std::uint64_t id, std::uint32_t keep_tokens);

private:
    Prompt encoded(MarkedText marked) const;

    Parts parts_;
    const std::int64_t created_ = std::time(nullptr);
    std::atomic<std::uint64_t> next_id_{1};
};

}  // namespace kapitsa

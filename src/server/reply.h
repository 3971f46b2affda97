// From the engine's events for one reply to what they mean: text, stop strings, reasoning, content, calls.
// Used by one thread at a time; the engine's tokens are trusted to be of the vocabulary, their text is not.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "chat/reply_reader.h"
#include "engine/messages.h"
#include "server/stop_strings.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

namespace kapitsa {

struct ReplyOptions {
    std::optional<ReplyReader> reader = std::nullopt;  // none: all of the text is content
    std::vector<std::string> stops = {};               // not empty strings; see StopStrings
    bool logprobs = false;                             // keep them for take_logprobs
};

struct ReplyUsage {
    std::uint32_t prompt_tokens = 0, cached_tokens = 0;
    std::uint32_t reply_tokens = 0;      // computed and used, with those of a stop string
    std::uint32_t reasoning_tokens = 0;  // of reply_tokens
};

/// Seconds by the engine's clock where it has said so, else by ours.
struct ReplyTimings {
    double queue_seconds = 0, prefill_seconds = 0, decode_seconds = 0;
};

/// A token of the content with its probability. `bytes` need not be whole characters.
struct TokenLogprob {
    struct Alternative {
        std::string bytes;
        float logprob = 0;
    };
    std::string bytes;
    float logprob = 0;
    std::vector<Alternative> top = {};  // best first
};

/// Adds `more` to `pieces`; neighbours that are text of one kind become one piece.
void append_pieces(std::vector<ReplyPiece> more, std::vector<ReplyPiece>& pieces);

enum class ReplyEnd {
    stop,        // the model, or a stop string, ended it
    tool_calls,  // the model ended it after a call
    length,      // it was cut: by max_tokens, by the context, or by us; a call may be half said
};

class Reply {
public:
    /// `tokenizer` must outlive this.
    explicit Reply(const Tokenizer& tokenizer, ReplyOptions options = {});

    /// Takes the next event of the outbox and returns the meaning it adds, pieces of one kind joined. After
    /// the end there is no more.
    std::vector<ReplyPiece> take(Event event);
    /// Ends it here, with what is there.
    std::vector<ReplyPiece> cut();
    /// Ends it here as one that came to nothing.
    void fail(Error error);

    bool ended() const { return ended_; }
    /// Why there is no end to speak of: the engine's Error. Null when all is well.
    const Error* error() const { return error_ ? &*error_ : nullptr; }
    /// Whether the engine has not ended it (a stop string or cut() has, or nobody yet): whoever is done with
    /// the reply then owes the engine a Cancel with keep_tokens().
    bool engine_runs() const { return engine_runs_; }
    /// Tokens of the reply that stand: all so far, or those before the stop string.
    std::uint32_t keep_tokens() const { return keep_tokens_; }

    ReplyEnd end() const;
    ReplyUsage usage() const;
    ReplyTimings timings() const;
    /// Of the tokens of content whose text has been given out since the last call, in order.
    std::vector<TokenLogprob> take_logprobs();

private:
    using Clock = std::chrono::steady_clock;
    /// After `tokens` tokens the text had `bytes` bytes, and no half character was waiting.
    struct Border {
        std::size_t bytes;
        std::uint32_t tokens;
    };
    struct Kept {
        std::uint32_t number;  // of the token in the reply, from 1
        TokenLogprob logprob;
    };

    void take_token(const Emitted& emitted, std::vector<ReplyPiece>& pieces);
    void classify(const Emitted& emitted, bool spoke);
    void read(std::string_view text, std::vector<ReplyPiece>& pieces);
    void finish(std::vector<ReplyPiece>& pieces);
    std::vector<ReplyPiece> heard(std::vector<ReplyPiece> pieces);
    std::uint32_t tokens_within(std::size_t bytes) const;

    const Tokenizer* tokenizer_;
    Detokenizer detokenizer_;
    StopStrings stops_;
    std::optional<ReplyReader> reader_;
    bool keeps_logprobs_;

    std::string half_character_;  // bytes of the last tokens that the next one may finish
    std::size_t text_bytes_ = 0;  // that the detokenizer has given
    std::vector<Border> borders_;

    std::optional<ReplyPiece::Kind> speaking_;  // the kind of the last piece
    std::uint32_t unsettled_tokens_ = 0;        // read before the first piece, whose kind they will take
    std::vector<Kept> kept_;                    // of tokens that are, or may yet turn out to be, content
    std::uint32_t content_until_ = 0;  // tokens up to here have their place; a marker may be behind it
    std::uint32_t reply_tokens_ = 0, reasoning_tokens_ = 0, keep_tokens_ = 0;
    std::uint32_t calls_begun_ = 0, calls_ended_ = 0;

    bool ended_ = false, engine_runs_ = true, was_cut_ = false;
    std::optional<Error> error_;
    std::uint32_t prompt_tokens_ = 0, cached_tokens_ = 0;
    Clock::time_point asked_ = Clock::now();
    std::optional<Clock::time_point> started_, first_token_, last_token_;
    std::optional<Finished> finished_;
};

}  // namespace kapitsa

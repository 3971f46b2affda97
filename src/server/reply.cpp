#include "server/reply.h"

#include <algorithm>

#include "base/utf8.h"

namespace kapitsa {
namespace {

double seconds_between(std::chrono::steady_clock::time_point from, std::chrono::steady_clock::time_point to) {
    return std::chrono::duration<double>(to - from).count();
}

bool joins(const ReplyPiece& last, const ReplyPiece& next) {
    using Kind = ReplyPiece::Kind;
    if (last.kind != next.kind) return false;
    if (next.kind == Kind::call_arguments) return last.call == next.call;
    return next.kind == Kind::reasoning || next.kind == Kind::content;
}

}  // namespace

Reply::Reply(const Tokenizer& tokenizer, ReplyOptions options)
    : tokenizer_(&tokenizer),
      detokenizer_(tokenizer),
      stops_(std::move(options.stops)),
      reader_(std::move(options.reader)),
      keeps_logprobs_(options.logprobs) {
    if (!reader_) speaking_ = ReplyPiece::Kind::content;
}

std::vector<ReplyPiece> Reply::take(Event event) {
    std::vector<ReplyPiece> pieces;
    if (const auto* started = std::get_if<Started>(&event)) {
        prompt_tokens_ = started->prompt_tokens;
        cached_tokens_ = started->cached_tokens;
        started_ = Clock::now();
    } else if (const auto* tokens = std::get_if<Tokens>(&event)) {
        for (const Emitted& emitted : tokens->accepted) {
            if (ended_) break;
            take_token(emitted, pieces);
        }
    } else if (const auto* finished = std::get_if<Finished>(&event)) {
        engine_runs_ = false;
        finished_ = *finished;
        prompt_tokens_ = finished->prompt_tokens;
        cached_tokens_ = finished->cached_tokens;
        if (!ended_) was_cut_ = finished->reason != Finished::Reason::stop_token;
        finish(pieces);
    } else if (auto* error = std::get_if<Error>(&event)) {
        engine_runs_ = false;
        fail(std::move(*error));
    }
    return pieces;
}

void Reply::fail(Error error) {
    if (!ended_) error_ = std::move(error);
    ended_ = true;
}

std::vector<ReplyPiece> Reply::cut() {
    std::vector<ReplyPiece> pieces;
    if (!ended_) was_cut_ = true;
    finish(pieces);
    return pieces;
}

void Reply::take_token(const Emitted& emitted, std::vector<ReplyPiece>& pieces) {
    if (!first_token_) first_token_ = Clock::now();
    last_token_ = Clock::now();
    ++reply_tokens_;
    keep_tokens_ = reply_tokens_;

    const std::string text = detokenizer_.push(emitted.token);
    text_bytes_ += text.size();
    if (!tokenizer_->is_special(emitted.token)) half_character_ += tokenizer_->piece(emitted.token);
    half_character_.erase(0, complete_utf8(half_character_).size());
    if (half_character_.empty()) borders_.push_back({text_bytes_, reply_tokens_});

    const std::string passed = stops_.push(text);
    std::vector<ReplyPiece> more;
    read(passed, more);
    classify(emitted, !more.empty());
    append_pieces(std::move(more), pieces);
    if (!stops_.found()) return;
    // What the stop string left standing: a token that reaches into it is not kept.
    keep_tokens_ = tokens_within(*stops_.found());
    finish(pieces);
}

/// A token is of the kind that is being spoken once it has been read: the marker that closes the reasoning
/// counts as reasoning. The one that opens a call is told from content when the call begins.
void Reply::classify(const Emitted& emitted, bool spoke) {
    using Kind = ReplyPiece::Kind;
    ++unsettled_tokens_;
    if (keeps_logprobs_ && (!speaking_ || speaking_ == Kind::content)) {
        TokenLogprob named{std::string(tokenizer_->piece(emitted.token)), emitted.logprob, {}};
        for (const auto& other : emitted.top)
            named.top.push_back({std::string(tokenizer_->piece(other.token)), other.logprob});
        kept_.push_back({reply_tokens_, std::move(named)});
    }
    if (!speaking_) return;
    if (speaking_ == Kind::reasoning) reasoning_tokens_ += unsettled_tokens_;
    unsettled_tokens_ = 0;
    if (speaking_ == Kind::content && (spoke || !reader_)) content_until_ = reply_tokens_;
    if (speaking_ != Kind::content)
        std::erase_if(kept_, [this](const Kept& kept) { return kept.number > content_until_; });
}

std::vector<TokenLogprob> Reply::take_logprobs() {
    const std::uint32_t said =
        ended_ ? keep_tokens_ : std::min(tokens_within(stops_.passed_bytes()), content_until_);
    std::vector<TokenLogprob> taken;
    auto kept = kept_.begin();
    for (; kept != kept_.end() && kept->number <= said; ++kept) taken.push_back(std::move(kept->logprob));
    kept_.erase(kept_.begin(), kept);
    return taken;
}

void Reply::read(std::string_view text, std::vector<ReplyPiece>& pieces) {
    if (text.empty()) return;
    if (reader_)
        append_pieces(heard(reader_->push(text)), pieces);
    else
        append_pieces({{ReplyPiece::Kind::content, std::string(text)}}, pieces);
}

void Reply::finish(std::vector<ReplyPiece>& pieces) {
    if (ended_) return;
    ended_ = true;
    if (!stops_.found()) {
        read(stops_.push(detokenizer_.finish()), pieces);
        if (stops_.found()) keep_tokens_ = tokens_within(*stops_.found());
        read(stops_.finish(), pieces);
    }
    if (stops_.found() && calls_ended_ < calls_begun_) was_cut_ = true;
    if (reader_) append_pieces(heard(reader_->finish(was_cut_ || stops_.found())), pieces);
}

std::vector<ReplyPiece> Reply::heard(std::vector<ReplyPiece> pieces) {
    for (const ReplyPiece& piece : pieces) {
        if (piece.kind == ReplyPiece::Kind::call_begins) ++calls_begun_;
        if (piece.kind == ReplyPiece::Kind::call_ends) ++calls_ended_;
        speaking_ = piece.kind;
    }
    return pieces;
}

void append_pieces(std::vector<ReplyPiece> more, std::vector<ReplyPiece>& pieces) {
    for (ReplyPiece& piece : more) {
        if (!pieces.empty() && joins(pieces.back(), piece))
            pieces.back().text += piece.text;
        else
            pieces.push_back(std::move(piece));
    }
}

std::uint32_t Reply::tokens_within(std::size_t bytes) const {
    const auto beyond =
        std::upper_bound(borders_.begin(), borders_.end(), bytes,
                         [](std::size_t limit, const Border& border) { return limit < border.bytes; });
    return beyond == borders_.begin() ? 0 : std::prev(beyond)->tokens;
}

ReplyEnd Reply::end() const {
    if (was_cut_ || calls_ended_ < calls_begun_) return ReplyEnd::length;
    return calls_begun_ > 0 ? ReplyEnd::tool_calls : ReplyEnd::stop;
}

ReplyUsage Reply::usage() const { return {prompt_tokens_, cached_tokens_, reply_tokens_, reasoning_tokens_}; }

ReplyTimings Reply::timings() const {
    if (finished_) return {finished_->queue_seconds, finished_->prefill_seconds, finished_->decode_seconds};
    const auto now = Clock::now();
    const auto started = started_.value_or(now), first = first_token_.value_or(now);
    return {seconds_between(asked_, started), seconds_between(started, first),
            seconds_between(first, last_token_.value_or(first))};
}

}  // namespace kapitsa

#include "server/reply.h"

#include <gtest/gtest.h>

#include "server/fake_engine_test.h"

namespace kapitsa {
namespace {

using Kind = ReplyPiece::Kind;

std::string text_of(const std::vector<ReplyPiece>& pieces) {
    std::string text;
    for (const ReplyPiece& piece : pieces) text += piece.text;
    return text;
}

const Tokenizer& tokenizer() {
    static const Tokenizer instance = byte_tokenizer();
    return instance;
}

Finished finished(Finished::Reason reason = Finished::Reason::stop_token) {
    return {.reason = reason, .prompt_tokens = 7, .cached_tokens = 3};
}

TEST(Reply, IsTheTextOfItsTokens) {
    Reply reply(tokenizer());
    EXPECT_TRUE(reply.take(Started{7, 3}).empty());
    EXPECT_EQ(text_of(reply.take(tokens_of("hello"))), "hello");
    EXPECT_FALSE(reply.ended());
    reply.take(finished());
    EXPECT_TRUE(reply.ended());
    EXPECT_FALSE(reply.engine_runs());
    EXPECT_EQ(reply.end(), ReplyEnd::stop);
    EXPECT_EQ(reply.usage().prompt_tokens, 7u);
    EXPECT_EQ(reply.usage().cached_tokens, 3u);
    EXPECT_EQ(reply.usage().reply_tokens, 5u);
}

TEST(Reply, NeverGivesOutHalfACharacter) {
    Reply reply(tokenizer());
    const std::string snowman = "☃";
    EXPECT_EQ(text_of(reply.take(tokens_of(snowman.substr(0, 2)))), "");
    EXPECT_EQ(text_of(reply.take(tokens_of(snowman.substr(2)))), snowman);
    EXPECT_EQ(text_of(reply.take(tokens_of("\xE2"))), "");
    EXPECT_EQ(text_of(reply.take(finished())), "\uFFFD");
}

TEST(Reply, AStopStringEndsItAndTheTokensBeforeItAreKept) {
    const std::string text = "снег END more";
    for (std::size_t cut = 0; cut <= text.size(); ++cut) {
        Reply reply(tokenizer(), {.stops = {"END"}});
        std::string said = text_of(reply.take(tokens_of(text.substr(0, cut))));
        said += text_of(reply.take(tokens_of(text.substr(cut))));
        EXPECT_EQ(said, "снег ");
        EXPECT_TRUE(reply.ended());
        EXPECT_TRUE(reply.engine_runs());
        EXPECT_EQ(reply.keep_tokens(), std::string("снег ").size());
        EXPECT_EQ(reply.usage().reply_tokens, std::string("снег END").size());
        reply.take(finished(Finished::Reason::cancelled));
        EXPECT_EQ(reply.end(), ReplyEnd::stop);
    }
}

TEST(Reply, ATokenThatReachesIntoTheStopStringIsNotKept) {
    constexpr Token ab = long_word + 1, half = ab + 1, other_half = ab + 2;
    const Tokenizer wide = byte_tokenizer({"ab", "\xF0\x9F", "\x99\x82"});
    const auto take = [&](std::string stop, const std::vector<Token>& ids) {
        Reply reply(wide, {.stops = {std::move(stop)}});
        Tokens tokens;
        for (const Token id : ids) tokens.accepted.push_back({.token = id});
        const std::string text = text_of(reply.take(std::move(tokens)));
        return std::pair(text, reply.keep_tokens());
    };
    EXPECT_EQ(take("bc", {'c', ab, 'c'}), std::pair(std::string("ca"), 1u));
    EXPECT_EQ(take("c", {ab, 'c'}), std::pair(std::string("ab"), 1u));
    EXPECT_EQ(take("🙂", {'c', half, other_half}), std::pair(std::string("c"), 1u));  // no half of the face
}

TEST(Reply, WhatLooksLikeAStopStringIsGivenOutAtTheEnd) {
    Reply reply(tokenizer(), {.stops = {"END"}});
    EXPECT_EQ(text_of(reply.take(tokens_of("an EN"))), "an ");
    EXPECT_EQ(text_of(reply.take(finished())), "EN");
}

TEST(Reply, EndsAtTheLengthWhenCut) {
    Reply full(tokenizer()), cut(tokenizer());
    full.take(tokens_of("x"));
    full.take(finished(Finished::Reason::length));
    EXPECT_EQ(full.end(), ReplyEnd::length);
    cut.take(tokens_of("x"));
    cut.cut();
    EXPECT_TRUE(cut.ended());
    EXPECT_TRUE(cut.engine_runs());
    EXPECT_EQ(cut.end(), ReplyEnd::length);
}

TEST(Reply, AnErrorOfTheEngineEndsIt) {
    Reply reply(tokenizer());
    reply.take(Error{Fault::device, "the device is gone"});
    EXPECT_TRUE(reply.ended());
    ASSERT_NE(reply.error(), nullptr);
    EXPECT_EQ(reply.error()->message, "the device is gone");
}

TEST(Reply, LogprobsComeWithTheTextTheyBelongTo) {
    Reply reply(tokenizer(), {.stops = {"END"}, .logprobs = true});
    const auto bytes = [&] {
        std::string text;
        for (const TokenLogprob& token : reply.take_logprobs()) text += token.bytes;
        return text;
    };
    reply.take(tokens_of("abE"));
    EXPECT_EQ(bytes(), "ab");
    reply.take(tokens_of("N"));
    EXPECT_EQ(bytes(), "");
    reply.take(tokens_of("xEND"));
    EXPECT_EQ(bytes(), "ENx");
    EXPECT_TRUE(reply.ended());
}

TEST(Reply, JoinsNeighbouringPiecesOfOneKind) {
    std::vector<ReplyPiece> pieces;
    append_pieces({{Kind::content, "a"}, {Kind::content, "b"}, {Kind::reasoning, "c"}}, pieces);
    append_pieces(
        {{Kind::reasoning, "d"}, {Kind::call_arguments, "e", "", 0}, {Kind::call_arguments, "f", "", 1}},
        pieces);
    ASSERT_EQ(pieces.size(), 4u);
    EXPECT_EQ(pieces[0].text, "ab");
    EXPECT_EQ(pieces[1].text, "cd");
}

}  // namespace
}  // namespace kapitsa

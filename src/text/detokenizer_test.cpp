#include "text/detokenizer.h"

#include <gtest/gtest.h>

#include <random>

#include "base/utf8.h"
#include "support/built_in_tokenizer.h"

namespace kapitsa {
namespace {

TEST(Detokenizer, ACharacterWaitsForItsLastByte) {
    const Tokenizer tokenizer = *Tokenizer::make(description_of({}));
    Detokenizer detokenizer(tokenizer);
    EXPECT_EQ(detokenizer.push('a'), "a");
    EXPECT_EQ(detokenizer.push(0xE2), "");
    EXPECT_EQ(detokenizer.push(0x82), "");
    EXPECT_EQ(detokenizer.push(0xAC), "€");
    EXPECT_EQ(detokenizer.finish(), "");
}

TEST(Detokenizer, WhatNeverBecomesACharacterIsReplaced) {
    const Tokenizer tokenizer = *Tokenizer::make(description_of({}));
    Detokenizer detokenizer(tokenizer);
    EXPECT_EQ(detokenizer.push(0xE2), "");
    EXPECT_EQ(detokenizer.push('b'), "\uFFFDb");
    EXPECT_EQ(detokenizer.push(0xFF), "\uFFFD");
    EXPECT_EQ(detokenizer.push(0xF0), "");
    EXPECT_EQ(detokenizer.finish(), "\uFFFD");
    EXPECT_EQ(detokenizer.finish(), "");
}

TEST(Detokenizer, SpecialTokensAndUnknownOnesAddNothing) {
    const Tokenizer& tokenizer = built_in_tokenizer();
    Detokenizer detokenizer(tokenizer);
    EXPECT_EQ(detokenizer.push(*tokenizer.find("<|im_end|>")), "");
    EXPECT_EQ(detokenizer.push(-1), "");
    EXPECT_EQ(detokenizer.push(1 << 30), "");
    EXPECT_EQ(detokenizer.push(*tokenizer.find("<think>")), "<think>");
    EXPECT_EQ(detokenizer.finish(), "");
}

TEST(Detokenizer, ThePiecesTogetherAreTheWhole) {
    const Tokenizer& tokenizer = built_in_tokenizer();
    std::mt19937 random(11);
    for (int round = 0; round < 300; ++round) {
        Detokenizer detokenizer(tokenizer);
        std::string pieces, bytes;
        for (int i = 0; i < 40; ++i) {
            const auto token = static_cast<Token>(random() % (round % 2 == 0 ? 260 : 8192));
            if (!tokenizer.is_special(token)) bytes += tokenizer.piece(token);
            const std::string piece = detokenizer.push(token);
            EXPECT_TRUE(is_utf8(piece));
            pieces += piece;
        }
        EXPECT_EQ(pieces + detokenizer.finish(), repair_utf8(bytes));
    }
}

}  // namespace
}  // namespace kapitsa

#include "text/bpe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "support/built_in_tokenizer.h"

namespace kapitsa {
namespace {

using testing::HasSubstr;

struct Model {
    TokenizerDescription description;
    PieceTable table;
    Bpe bpe;

    explicit Model(TokenizerDescription described)
        : description(std::move(described)), table(description.pieces) {
        for (std::size_t id = 0; id < description.pieces.size(); ++id) table.insert(static_cast<Token>(id));
        bpe = *Bpe::make(table, description.merges);
    }
    std::vector<Token> encode(std::string_view word) const {
        std::vector<Token> out;
        Bpe::Scratch scratch;
        bpe.encode(word, out, scratch);
        return out;
    }
    /// The definition, without any art.
    std::vector<Token> merged_plainly(std::string_view word) const {
        std::map<std::pair<std::string, std::string>, std::size_t> ranks;
        for (std::size_t rank = 0; rank < description.merges.size(); ++rank)
            ranks[description.merges[rank]] = rank;
        std::vector<std::string> parts;
        for (const char byte : word) parts.emplace_back(1, byte);
        for (;;) {
            std::size_t best = description.merges.size(), at = 0;
            for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
                const auto found = ranks.find({parts[i], parts[i + 1]});
                if (found != ranks.end() && found->second < best) best = found->second, at = i;
            }
            if (best == description.merges.size()) break;
            parts[at] += parts[at + 1];
            parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at) + 1);
        }
        std::vector<Token> ids;
        for (const std::string& part : parts) ids.push_back(*table.find(part));
        return ids;
    }
};

const Model& letters() {
    static const Model model(description_of({{"a", "b"},
                                             {"b", "c"},
                                             {"a", "a"},
                                             {"aa", "a"},
                                             {"ab", "c"},
                                             {"aa", "aa"},
                                             {"c", "ab"},
                                             {"bc", "a"},
                                             {"abc", "abc"},
                                             {"b", "b"},
                                             {"bb", "bb"}}));
    return model;
}

TEST(Bpe, TheLowestRankComesFirstAndTheLeftmostOfEquals) {
    const auto pieces_of = [](std::string_view word) {
        std::vector<std::string> pieces;
        for (const Token id : letters().encode(word))
            pieces.push_back(letters().description.pieces[static_cast<std::size_t>(id)]);
        return pieces;
    };
    EXPECT_THAT(pieces_of("abc"), testing::ElementsAre("abc"));
    EXPECT_THAT(pieces_of("bca"), testing::ElementsAre("bca"));
    EXPECT_THAT(pieces_of("aaa"), testing::ElementsAre("aaa"));
    EXPECT_THAT(pieces_of("aaaab"), testing::ElementsAre("aaa", "ab"));
    EXPECT_THAT(pieces_of("bbb"), testing::ElementsAre("bb", "b"));
    EXPECT_THAT(pieces_of("xyz"), testing::ElementsAre("x", "y", "z"));
    EXPECT_THAT(pieces_of(""), testing::IsEmpty());
}

TEST(Bpe, AgreesWithItsDefinitionForShortWordsAndLongOnes) {
    std::mt19937 random(7);
    for (int word = 0; word < 400; ++word) {
        std::string text(random() % 120, ' ');
        for (char& letter : text) letter = "abcx"[random() % (word % 2 == 0 ? 3 : 4)];
        EXPECT_EQ(letters().encode(text), letters().merged_plainly(text)) << text;
    }
    static const Model built_in(built_in_description());
    for (int word = 0; word < 60; ++word) {
        std::string text;
        while (text.size() < random() % 100 + 1) text += built_in.description.pieces[random() % 2000];
        EXPECT_EQ(built_in.encode(text), built_in.merged_plainly(text)) << text;
    }
}

TEST(Bpe, AMegabyteOfOneLetterIsNoTrouble) {
    const std::vector<Token> ids = letters().encode(std::string(1 << 20, 'b'));
    EXPECT_EQ(ids.size(), (1u << 20) / 4);
    EXPECT_EQ(letters().encode(std::string(1 << 20, 'z')).size(), 1u << 20);
}

TEST(Bpe, AMergeThatStandsTwiceCountsWhereItStandsLast) {
    const Model model(description_of({{"a", "b"}, {"b", "c"}, {"a", "b"}}));
    EXPECT_EQ(model.encode("abc"), (std::vector<Token>{'a', *model.table.find("bc")}));
}

TEST(Bpe, AVocabularyThatCannotWorkIsRefused) {
    const auto refusal = [](TokenizerDescription description) {
        PieceTable table(description.pieces);
        for (std::size_t id = 0; id < description.pieces.size(); ++id)
            if (!description.pieces[id].empty()) table.insert(static_cast<Token>(id));
        const auto bpe = Bpe::make(table, description.merges);
        return bpe ? "it was taken" : bpe.error().message;
    };
    TokenizerDescription description = description_of({{"a", "b"}});
    description.pieces['q'].clear();
    EXPECT_THAT(refusal(description), HasSubstr("no token for the byte 113"));
    description = description_of({{"a", "b"}});
    description.pieces[0xC0].clear();  // never in UTF-8
    EXPECT_EQ(refusal(description), "it was taken");
    description.merges.emplace_back("ab", "c");
    EXPECT_THAT(refusal(description), HasSubstr("merge 1 makes a piece"));
    description.merges.back() = {"xy", "c"};
    EXPECT_THAT(refusal(description), HasSubstr("merge 1 joins a piece"));
}

}  // namespace
}  // namespace kapitsa

#include "cli/question.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

namespace kapitsa {
namespace {

using testing::HasSubstr;

constexpr int not_open = 1000;

/// What comes of the words and a pipe that holds `piped`.
Result<std::string> asked(const std::optional<std::string>& words, std::string_view piped) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    std::jthread writer([&] {
        for (std::string_view left = piped; !left.empty();) {
            const auto bytes = ::write(ends[1], left.data(), left.size());
            if (bytes <= 0) break;
            left.remove_prefix(static_cast<std::size_t>(bytes));
        }
        ::close(ends[1]);
    });
    auto question = read_question(words, ends[0]);
    for (char rest[4096]; ::read(ends[0], rest, sizeof rest) > 0;) {
    }
    writer.join();
    ::close(ends[0]);
    return question;
}

TEST(Question, IsTheWordsThenAnEmptyLineThenThePipe) {
    EXPECT_EQ(asked("Explain this:", "x = 1\ny = 2\n").value(), "Explain this:\n\nx = 1\ny = 2");
}

TEST(Question, IsWhatThereIsOfTheTwo) {
    EXPECT_EQ(asked(std::nullopt, "  Good morning!\n\n").value(), "  Good morning!");
    EXPECT_EQ(asked("Good morning!", "").value(), "Good morning!");
    EXPECT_EQ(asked("Good morning!", " \n\t\n").value(), "Good morning!");
    EXPECT_EQ(read_question("Good morning!", not_open).value(), "Good morning!");  // standard input is closed
}

TEST(Question, OfBlanksAloneIsRefusedWithASentence) {
    EXPECT_THAT(asked(" \t", "x").error().message, HasSubstr("the question is blank"));
    EXPECT_THAT(asked("", "").error().message, HasSubstr("the question is blank"));
    for (const char* piped : {"", "\n", " \t\r\n"})
        EXPECT_THAT(asked(std::nullopt, piped).error().message, HasSubstr("only blanks or nothing"));
}

TEST(Question, MustBeUtf8) {
    const auto question = asked("Explain", "abc\xff");
    ASSERT_FALSE(question.has_value());
    EXPECT_EQ(question.error().fault, Fault::invalid_input);
    EXPECT_THAT(question.error().message, HasSubstr("not UTF-8 text (byte 3)"));
}

TEST(Question, HasALimit) {
    EXPECT_THAT(asked(std::nullopt, std::string((16u << 20) + 1, 'x')).error().message, HasSubstr("16 MiB"));
    EXPECT_EQ(asked(std::nullopt, std::string(1u << 20, 'x')).value().size(), 1u << 20);
}

}  // namespace
}  // namespace kapitsa

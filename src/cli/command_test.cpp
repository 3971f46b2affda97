#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "cli/command.h"

namespace kapitsa {
namespace {

using testing::HasSubstr;

struct Given {
    bool loud = false, count_given = false;
    std::string name = "tiny", word;
    std::uint64_t count = 7;
    double heat = 0.5;
    Status result = Done{};
    int runs = 0;
};
Given given;

Action setup(Arguments& arguments) {
    arguments.flag("-l,--loud", given.loud, "Speaks up");
    arguments.text("--name", given.name, "NAME", "A name");
    arguments.number("--count", given.count, 1, 9, "A number");
    arguments.real("--heat", given.heat, 0, 2, "A real number");
    arguments.positional("word", given.word, "A word");
    const auto count_given = arguments.given("--count");
    return [count_given] {
        ++given.runs;
        given.count_given = count_given();
        return given.result;
    };
}

const Command probe{"probe", "Probes", "Examples:\n  kapitsa probe --loud\n", setup};

struct Ran {
    int code;
    std::string out, err;
};

Ran run(std::vector<const char*> words) {
    words.insert(words.begin(), "kapitsa");
    const std::array commands{&probe};
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int code = run_command_line(commands, static_cast<int>(words.size()), words.data());
    return {code, testing::internal::GetCapturedStdout(), testing::internal::GetCapturedStderr()};
}

class CommandLine : public testing::Test {
protected:
    void SetUp() override { given = {}; }
};

TEST_F(CommandLine, OptionsReachTheCommand) {
    EXPECT_EQ(run({"probe", "hello", "-l", "--name", "big", "--count=9", "--heat", "1.5"}).code, 0);
    EXPECT_EQ(given.runs, 1);
    EXPECT_TRUE(given.loud);
    EXPECT_TRUE(given.count_given);
    EXPECT_EQ(given.name, "big");
    EXPECT_EQ(given.count, 9u);
    EXPECT_EQ(given.heat, 1.5);
    EXPECT_EQ(given.word, "hello");
}

TEST_F(CommandLine, WhatIsNotGivenKeepsItsDefault) {
    EXPECT_EQ(run({"probe"}).code, 0);
    EXPECT_FALSE(given.loud);
    EXPECT_FALSE(given.count_given);
    EXPECT_EQ(given.name, "tiny");
    EXPECT_EQ(given.count, 7u);
}

TEST_F(CommandLine, AnUnknownOptionIsRefusedAndHelpIsPointedTo) {
    const auto ran = run({"probe", "--quiet"});
    EXPECT_EQ(ran.code, exit_code(Fault::invalid_input));
    EXPECT_THAT(ran.err, HasSubstr("--quiet"));
    EXPECT_THAT(ran.err, HasSubstr("kapitsa probe --help"));
    EXPECT_EQ(given.runs, 0);
}

TEST_F(CommandLine, ANumberOutsideItsRangeIsRefused) {
    for (const char* word : {"--count=0", "--count=10", "--count=x", "--count=-1", "--heat=3"}) {
        const auto ran = run({"probe", word});
        EXPECT_EQ(ran.code, exit_code(Fault::invalid_input)) << word;
        EXPECT_EQ(given.runs, 0) << word;
    }
}

TEST_F(CommandLine, AnUnknownCommandIsRefused) {
    const auto ran = run({"prove"});
    EXPECT_EQ(ran.code, exit_code(Fault::invalid_input));
    EXPECT_THAT(ran.err, HasSubstr("kapitsa --help"));
}

TEST_F(CommandLine, HelpTeachesWithExamplesAndRunsNothing) {
    const auto ran = run({"probe", "--help"});
    EXPECT_EQ(ran.code, 0);
    EXPECT_THAT(ran.out, HasSubstr("--count N (7)"));
    EXPECT_THAT(ran.out, HasSubstr("kapitsa probe --loud"));
    EXPECT_EQ(given.runs, 0);
    EXPECT_THAT(run({"--help"}).out, HasSubstr("Probes"));
}

TEST_F(CommandLine, NoCommandAtAllShowsTheHelp) {
    const auto ran = run({});
    EXPECT_EQ(ran.code, 0);
    EXPECT_THAT(ran.out, HasSubstr("probe"));
}

TEST_F(CommandLine, AnErrorOfTheCommandIsOneSentenceAndItsFaultsExitCode) {
    given.result = fail(Fault::corrupt_file, "the file ends inside a field");
    const auto ran = run({"probe"});
    EXPECT_EQ(ran.code, 3);
    EXPECT_EQ(ran.err, "kapitsa: the file ends inside a field\n");
}

TEST_F(CommandLine, BeingCancelledIsNothingToTalkAbout) {
    given.result = fail(Fault::cancelled, "gone");
    const auto ran = run({"probe"});
    EXPECT_EQ(ran.code, 130);
    EXPECT_EQ(ran.err, "");
}

TEST(ExitCode, IsAnotherForEachFault) {
    std::vector<int> codes;
    for (const auto fault : {Fault::invalid_input, Fault::corrupt_file, Fault::unsupported,
                             Fault::out_of_memory, Fault::device, Fault::cancelled})
        codes.push_back(exit_code(fault));
    EXPECT_EQ(codes, (std::vector<int>{2, 3, 4, 5, 6, 130}));
}

}  // namespace
}  // namespace kapitsa

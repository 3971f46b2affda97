#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <vector>

#include "cli/command.h"

namespace kapitsa {
namespace {

using testing::HasSubstr;

struct Given {
    bool loud = false;
    std::string name = "tiny";
    std::optional<std::string> words;
    std::uint64_t count = 7;
    std::optional<std::uint64_t> seed;
    std::vector<std::uint32_t> lengths = {1, 2};
    std::optional<double> heat;
    std::optional<std::uint64_t> room;
    Status result = Done{};
    int runs = 0;
};
Given given;

Action setup(Arguments& arguments) {
    arguments.flag("-l,--loud", given.loud, "Speaks up");
    arguments.text("--name", given.name, "NAME", "A name");
    arguments.number("--count", given.count, 1, 9, "A number");
    arguments.number("--seed", given.seed, 0, UINT64_MAX, "Repeats", "another each time");
    arguments.numbers("--lengths", given.lengths, 1, 99, "Lengths");
    arguments.real("--heat", given.heat, 0, 2, "A real number", "middling");
    arguments.bytes("--room", given.room, "A size", "enough");
    arguments.words("WORDS", given.words, "Words");
    return [] {
        ++given.runs;
        return given.result;
    };
}

Action setup_nothing(Arguments&) {
    return [] { return Status(Done{}); };
}

const Command probe{"probe", "Probes", "Examples:\n  kapitsa probe --loud\n", setup};
const Command bare{"bare", "Takes nothing", "Examples:\n  kapitsa bare\n", setup_nothing};
const Command build{"version", "Shows the version", "", [](Arguments&) -> Action {
                        return [] {
                            std::puts("kapitsa 9");
                            return Status(Done{});
                        };
                    }};

struct Ran {
    int code;
    std::string out, err;
};

Ran run(std::vector<const char*> words) {
    words.insert(words.begin(), "kapitsa");
    const std::array commands{&probe, &bare, &build};
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
    EXPECT_EQ(run({"probe", "-l", "--name", "big", "--count=9", "--heat", "1.5e0", "--seed",
                   "18446744073709551615", "--lengths", "3,99"})
                  .code,
              0);
    EXPECT_EQ(given.runs, 1);
    EXPECT_TRUE(given.loud);
    EXPECT_EQ(given.name, "big");
    EXPECT_EQ(given.count, 9u);
    EXPECT_EQ(given.heat, 1.5);
    EXPECT_EQ(given.seed, UINT64_MAX);
    EXPECT_EQ(given.lengths, (std::vector<std::uint32_t>{3, 99}));
}

TEST_F(CommandLine, WhatIsNotGivenKeepsItsDefault) {
    EXPECT_EQ(run({"probe"}).code, 0);
    EXPECT_FALSE(given.loud);
    EXPECT_EQ(given.words, std::nullopt);
    EXPECT_EQ(given.seed, std::nullopt);
    EXPECT_EQ(given.name, "tiny");
    EXPECT_EQ(given.count, 7u);
    EXPECT_EQ(given.lengths, (std::vector<std::uint32_t>{1, 2}));
}

TEST_F(CommandLine, WordsAreJoinedWhereverTheOptionsStand) {
    EXPECT_EQ(run({"probe", "Good", "--loud", "morning", "--", "-5", "--loud"}).code, 0);
    EXPECT_EQ(given.words, "Good morning -5 --loud");
    given = {};
    EXPECT_EQ(run({"probe", ""}).code, 0);
    EXPECT_EQ(given.words, "");
}

TEST_F(CommandLine, AnOptionGivenTwiceHoldsAsItWasGivenLast) {
    EXPECT_EQ(run({"probe", "--count", "1", "--count", "2", "--lengths=1", "--lengths=5,6"}).code, 0);
    EXPECT_EQ(given.count, 2u);
    EXPECT_EQ(given.lengths, (std::vector<std::uint32_t>{5, 6}));
}

TEST_F(CommandLine, ASizeIsWrittenAsPeopleWriteIt) {
    const std::pair<const char*, std::uint64_t> cases[] = {
        {"off", 0},           {"4K", 4096},          {"800M", 800u << 20},
        {"12G", 12ull << 30}, {"12GB", 12ull << 30}, {"1T", 1ull << 40}};
    for (const auto& [text, bytes] : cases) {
        EXPECT_EQ(run({"probe", "--room", text}).code, 0) << text;
        EXPECT_EQ(given.room, bytes) << text;
    }
}

TEST_F(CommandLine, EveryRefusalNamesTheOptionWhatItTakesWhatItGotAndTheHelp) {
    const std::string count = "--count takes a whole number from 1 to 9, and ",
                      heat = "--heat takes a number from 0 to 2, and not ",
                      room = "--room takes a size like 800M or 12G, or off, and not ",
                      lengths = "--lengths takes whole numbers from 1 to 99, separated by commas, and not ";
    const std::vector<std::pair<std::vector<const char*>, std::string>> cases = {
        {{"--count", "0"}, count + "not \"0\""},
        {{"--count=10"}, count + "not \"10\""},
        {{"--count", "-1"}, count + "not \"-1\""},
        {{"--count", "abc"}, count + "not \"abc\""},
        {{"--count", "3x"}, count + "not \"3x\""},
        {{"--count", " 3"}, count + "not \" 3\""},
        {{"--count="}, count + "not \"\""},
        {{"--count", "99999999999999999999"}, count + "not \"99999999999999999999\""},
        {{"--count"}, count + "nothing stands behind it"},
        {{"--seed", "-1"}, "--seed takes a whole number from 0 to 18446744073709551615, and not \"-1\""},
        {{"--heat", "nan"}, heat + "\"nan\""},
        {{"--heat", "inf"}, heat + "\"inf\""},
        {{"--heat", "-inf"}, heat + "\"-inf\""},
        {{"--heat", "1e999"}, heat + "\"1e999\""},
        {{"--heat", "2.01"}, heat + "\"2.01\""},
        {{"--heat", "0x1"}, heat + "\"0x1\""},
        {{"--heat", "1,5"}, heat + "\"1,5\""},
        {{"--heat", ""}, heat + "\"\""},
        {{"--lengths", "1,,2"}, lengths + "\"1,,2\""},
        {{"--lengths", "1,2,"}, lengths + "\"1,2,\""},
        {{"--lengths", "0"}, lengths + "\"0\""},
        {{"--lengths", ""}, lengths + "\"\""},
        {{"--room", "12"}, room + "\"12\""},
        {{"--room", "0G"}, room + "\"0G\""},
        {{"--room", "1.5G"}, room + "\"1.5G\""},
        {{"--room", "B"}, room + "\"B\""},
        {{"--room", "99999999T"}, room + "\"99999999T\""},
        {{"--room="}, room + "\"\""},
        {{"--name="}, "--name takes NAME, and not \"\""},
        {{"--name"}, "--name takes NAME, and nothing stands behind it"},
        {{"--loud=yes"}, "--loud takes no value, and not \"yes\""},
        {{"-lx"}, "-l takes no value, and not \"x\""},
        {{"--quiet"}, "there is no option --quiet (words that begin with a dash stand behind --)"},
        {{"-5"}, "there is no option -5 (words that begin with a dash stand behind --)"},
        {{"caf\xe9"}, "the argument \"caf?\" is not UTF-8 text"},
        {{"--name", "caf\xe9"}, "the argument \"caf?\" is not UTF-8 text"},
    };
    for (auto [words, sentence] : cases) {
        words.insert(words.begin(), "probe");
        const auto ran = run(words);
        EXPECT_EQ(ran.code, exit_code(Fault::invalid_input)) << sentence;
        EXPECT_EQ(ran.err, "kapitsa: " + sentence + "; kapitsa probe --help says more\n");
        EXPECT_EQ(ran.out, "");
    }
    EXPECT_EQ(given.runs, 0);
}

TEST_F(CommandLine, AWordThatNobodyAskedForIsRefused) {
    const auto ran = run({"bare", "tiny"});
    EXPECT_EQ(ran.code, exit_code(Fault::invalid_input));
    EXPECT_EQ(ran.err,
              "kapitsa: \"tiny\" is no option, and kapitsa bare takes nothing else; "
              "kapitsa bare --help says more\n");
}

TEST_F(CommandLine, AnUnknownCommandIsNamedAndSoAreThoseThereAre) {
    for (const std::vector<const char*>& words :
         {std::vector{"prove"}, {"help", "prove"}, {"prove", "--help"}}) {
        const auto ran = run(words);
        EXPECT_EQ(ran.code, exit_code(Fault::invalid_input));
        EXPECT_EQ(ran.err,
                  "kapitsa: there is no command \"prove\": the commands are probe, bare, version; "
                  "kapitsa --help says more\n");
    }
    EXPECT_THAT(run({"--port", "3"}).err, HasSubstr("there is no option --port before a command"));
}

TEST_F(CommandLine, HelpTeachesWithExamplesAndDefaultsAndRunsNothing) {
    const auto ran = run({"probe", "--help"});
    EXPECT_EQ(ran.code, 0);
    EXPECT_THAT(ran.out, HasSubstr("Usage: kapitsa probe [OPTIONS] [WORDS]"));
    EXPECT_THAT(ran.out, HasSubstr("-l, --loud              Speaks up [off]\n"));
    EXPECT_THAT(ran.out, HasSubstr("--name NAME             A name [tiny]\n"));
    EXPECT_THAT(ran.out, HasSubstr("--count N               A number: a whole number from 1 to 9 [7]\n"));
    EXPECT_THAT(ran.out, HasSubstr("18446744073709551615 [another each time]\n"));
    EXPECT_THAT(ran.out, HasSubstr("[1,2]\n"));
    EXPECT_THAT(ran.out, HasSubstr("from 0 to 2 [middling]\n"));
    EXPECT_THAT(ran.out, HasSubstr("kapitsa probe --loud"));
    for (const std::vector<const char*>& words :
         {std::vector{"help", "probe"}, {"--help", "probe"}, {"probe", "-h"}, {"probe", "-l", "-h"}})
        EXPECT_EQ(run(words).out, ran.out);
    EXPECT_EQ(given.runs, 0);
}

TEST_F(CommandLine, HelpOfTheProgramListsTheCommandsHoweverItIsAskedFor) {
    const auto ran = run({});
    EXPECT_EQ(ran.code, 0);
    EXPECT_THAT(ran.out, HasSubstr("  probe                   Probes\n"));
    for (const char* word : {"help", "--help", "-h"}) EXPECT_EQ(run({word}).out, ran.out);
}

TEST_F(CommandLine, TheVersionIsAnOptionToo) {
    EXPECT_EQ(run({"--version"}).out, "kapitsa 9\n");
    EXPECT_EQ(run({"version"}).out, "kapitsa 9\n");
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

TEST(HelpRow, WrapsAndBeginsAnewWhereTheLeftSideIsLong) {
    EXPECT_EQ(help_row("left", "right"), "  left                    right\n");
    EXPECT_EQ(help_row("123456789012345678901234", "x"),
              "  123456789012345678901234\n                          x\n");
    const std::string word(60, 'w');
    EXPECT_EQ(help_row("a", word + " " + word),
              "  a                       " + word + "\n                          " + word + "\n");
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

#include "chat/tool_arguments.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace kapitsa {
namespace {

std::string typed(std::string_view raw, const char* schema) {
    const Json json = Json::parse(schema);
    return argument_json(raw, &json);
}

TEST(ToolArguments, StringsStayByteForByte) {
    EXPECT_EQ(typed(" 12\n", R"({"type":"string"})"), "\" 12\\n\"");
    EXPECT_EQ(typed("null", R"({"type":"string"})"), "\"null\"");
    EXPECT_EQ(typed("a\"\\\x01", R"({"enum":["a","b"]})"), R"("a\"\\\u0001")");
}

TEST(ToolArguments, OtherTypesAreParsed) {
    EXPECT_EQ(typed(" 12 ", R"({"type":"integer"})"), "12");
    EXPECT_EQ(typed("3.0", R"({"type":"integer"})"), "3");
    EXPECT_EQ(typed("3.0", R"({"type":"number"})"), "3.0");
    EXPECT_EQ(typed("True", R"({"type":"boolean"})"), "true");
    EXPECT_EQ(typed("None", R"({"type":"integer"})"), "null");
    EXPECT_EQ(typed(R"({"a": [1]})", R"({"type":"object"})"), R"({"a": [1]})");
    EXPECT_EQ(typed("[1]", R"({"items":{}})"), "[1]");
}

TEST(ToolArguments, WhatDoesNotFitStaysAString) {
    EXPECT_EQ(typed("twelve", R"({"type":"integer"})"), "\"twelve\"");
    EXPECT_EQ(typed("[1]", R"({"type":"object"})"), "\"[1]\"");
    EXPECT_EQ(typed("{\"a\":1", R"({"type":"object"})"), R"("{\"a\":1")");
}

TEST(ToolArguments, UnionsTryTheOtherTypesFirst) {
    EXPECT_EQ(typed("5", R"({"anyOf":[{"type":"string"},{"type":"integer"}]})"), "5");
    EXPECT_EQ(typed("x5", R"({"type":["string","integer"]})"), "\"x5\"");
    EXPECT_EQ(typed("null", R"({"type":"string","nullable":true})"), "null");
    EXPECT_EQ(typed("2", R"({"enum":[1,2,"auto"]})"), "2");
    EXPECT_EQ(typed("auto", R"({"enum":[1,2,"auto"]})"), "\"auto\"");
}

TEST(ToolArguments, WithoutASchemaJsonIsTriedFirst) {
    EXPECT_EQ(argument_json("12", nullptr), "12");
    EXPECT_EQ(argument_json("False", nullptr), "false");
    EXPECT_EQ(argument_json("hello", nullptr), "\"hello\"");
    EXPECT_EQ(typed("12", R"({"type": 7})"), "12");
}

}  // namespace
}  // namespace kapitsa

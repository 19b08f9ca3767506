// SPDX-License-Identifier: Apache-2.0
// Answers with tools are kept to the choice, and calls to their schemas, whatever a random model would say.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "runnel/generation.h"
#include "runnel/tools.h"
#include "tests/constraint/byte_model.h"

namespace runnel {
namespace {

using nlohmann::json;
using Kind = ToolChoice::Kind;

const std::vector<Tool> kTools = {
    {.name = "roll",
     .description = "Rolls a die",
     .parameters =
         R"({"type": "object", "properties": {"sides": {"enum": [6, 20]}, "loud": {"type": "boolean"}},
                       "required": ["sides"]})"},
    {.name = "now", .description = "The time", .parameters = {}},
};

class ToolConstraints : public test::ByteModelTest {
 protected:
  std::shared_ptr<const Constraint> made(const ToolChoice& choice,
                                         std::span<const Tool> tools = kTools) const {
    auto constraint = tool_constraint(*model_, tools, choice);
    if (!constraint) throw std::runtime_error(constraint.error().message);
    return *constraint;
  }
  /// An answer of the random model.
  ToolAnswer answer(const ToolChoice& choice, std::uint64_t seed) {
    auto session = Session::create(model_);
    if (!session || !session->prefill(*model_->encode("Hi"))) throw std::runtime_error("session");
    const auto result = generate(*session, {.sampling = {.temperature = 1.0F, .seed = seed},
                                            .max_tokens = 600,
                                            .constraint = made(choice)});
    if (!result) throw std::runtime_error(result.error().message);
    EXPECT_EQ(result->reason, FinishReason::end) << result->text;
    return read_tool_calls(model_->tool_format(), result->text);
  }
};

constexpr const char* kRoll =
    "<tool_call>\n{\"name\": \"roll\", \"arguments\": {\"sides\": 6}}\n</tool_call>";
constexpr const char* kNow = "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";

TEST_F(ToolConstraints, FreeTextMayTurnIntoCalls) {
  const auto automatic = made({});
  const std::string two = std::string(kRoll) + "\n" + kNow;
  for (const std::string& text : {std::string(), std::string("Hello."), std::string("a < b <tool"),
                                  std::string(kNow), "é\n" + two})
    EXPECT_TRUE(automatic->accepts(text)) << text;
  for (const std::string& text :
       {std::string("<tool_call>"), std::string("<tool_call>x"), std::string(kNow) + " More.",
        std::string("<tool_call>\n{\"name\": \"other\", \"arguments\": {}}\n</tool_call>"),
        std::string(
            "<tool_call>\n{\"name\": \"roll\", \"arguments\": {\"sides\": 7}}\n</tool_call>"),
        std::string("<tool_call>\n{\"name\": \"roll\", \"arguments\": {\"sides\": 6, \"x\": "
                    "1}}\n</tool_call>"),
        std::string("<tool_call>\n{\"name\": \"now\", \"arguments\": {\"a\": 1}}\n</tool_call>")})
    EXPECT_FALSE(automatic->accepts(text)) << text;
}

TEST_F(ToolConstraints, ChoicesAreKept) {
  const std::string two = std::string(kRoll) + "\n" + kNow;
  EXPECT_TRUE(made({.kind = Kind::none})->accepts("Hello <tool_"));
  EXPECT_FALSE(made({.kind = Kind::none})->accepts(kNow));
  EXPECT_FALSE(made({.kind = Kind::required})->accepts("Hello"));
  EXPECT_FALSE(made({.kind = Kind::required})->accepts(""));
  EXPECT_TRUE(made({.kind = Kind::required})->accepts(two));
  EXPECT_FALSE(made({.kind = Kind::required, .parallel = false})->accepts(two));
  EXPECT_TRUE(made({.kind = Kind::required, .parallel = false})->accepts(kRoll));
  EXPECT_TRUE(made({.kind = Kind::named, .name = "now"})->accepts(kNow));
  EXPECT_FALSE(made({.kind = Kind::named, .name = "now"})->accepts(kRoll));
  EXPECT_FALSE(made({.kind = Kind::automatic, .parallel = false})->accepts(two));
}

TEST_F(ToolConstraints, ARandomModelMakesValidCalls) {
  int rolls = 0;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    const ToolAnswer said = answer({.kind = Kind::required, .parallel = false}, seed);
    EXPECT_TRUE(said.broken.empty());
    EXPECT_EQ(said.text, "");
    ASSERT_EQ(said.calls.size(), 1U);
    const json arguments = json::parse(said.calls[0].arguments);
    if (said.calls[0].name == "roll") {
      ++rolls;
      EXPECT_TRUE(arguments.at("sides") == 6 || arguments.at("sides") == 20);
    } else {
      EXPECT_EQ(said.calls[0].name, "now");
      EXPECT_TRUE(arguments.empty());
    }
  }
  EXPECT_GT(rolls, 0);
}

TEST_F(ToolConstraints, ASchemaThatIsNotSupportedIsAnyObjectUnlessItIsStrict) {
  std::vector<Tool> tools = {{.name = "f",
                              .description = {},
                              .parameters = R"({"type": "object", "not": {"required": ["a"]}})"}};
  EXPECT_TRUE(
      made({.kind = Kind::required}, tools)
          ->accepts(
              "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"q\": [1, 2]}}\n</tool_call>"));
  tools[0].strict = true;
  const auto refused = tool_constraint(*model_, tools, {.kind = Kind::required});
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("f: schema: #/not: the keyword \"not\""),
            std::string::npos)
      << refused.error().message;
}

TEST_F(ToolConstraints, AnObjectWithoutPropertiesIsFree) {
  const std::vector<Tool> tools = {
      {.name = "f",
       .description = {},
       .parameters =
           R"({"type": "object", "properties": {"filter": {"type": "object"}}, "required": ["filter"]})"}};
  const auto constraint = made({.kind = Kind::required}, tools);
  const auto call = [](const char* arguments) {
    return std::string("<tool_call>\n{\"name\": \"f\", \"arguments\": ") + arguments +
           "}\n</tool_call>";
  };
  EXPECT_TRUE(constraint->accepts(call("{\"filter\": {\"any\": \"thing\"}}")));
  EXPECT_FALSE(constraint->accepts(call("{\"filter\": {}, \"more\": 1}")));
}

TEST_F(ToolConstraints, WhatIsNoChoiceIsRefused) {
  EXPECT_EQ(tool_constraint(*model_, {}, {}).error().code, ErrorCode::invalid_argument);
  const auto other = tool_constraint(*model_, kTools, {.kind = Kind::named, .name = "other"});
  ASSERT_FALSE(other.has_value());
  EXPECT_NE(other.error().message.find("other"), std::string::npos);
}

TEST_F(ToolConstraints, AHundredToolsAreCompiledInTime) {
  std::vector<Tool> tools;
  for (int i = 0; i < 100; ++i) {
    const std::string n = std::to_string(i);
    tools.push_back(
        {.name = "tool_" + n,
         .description = "Does something",
         .parameters = R"({"type": "object", "properties": {"a)" + n +
                       R"(": {"type": "string"}, "b": {"enum": ["x", "y"]}}, "required": ["a)" + n +
                       R"("]})"});
  }
  auto constraint = tool_constraint(*model_, tools);
  // The limit is of the clock, and the machine may have other work.
  for (int more = 0; more < 5 && !constraint; ++more) constraint = tool_constraint(*model_, tools);
  ASSERT_TRUE(constraint.has_value()) << constraint.error().message;
  EXPECT_TRUE((*constraint)
                  ->accepts("<tool_call>\n{\"name\": \"tool_99\", \"arguments\": {\"a99\": \"z\", "
                            "\"b\": \"x\"}}\n</tool_call>"));
  EXPECT_FALSE((*constraint)
                   ->accepts("<tool_call>\n{\"name\": \"tool_99\", \"arguments\": {\"a98\": "
                             "\"z\"}}\n</tool_call>"));
}

TEST_F(ToolConstraints, SourcesOfTagsThatAreNoneAreRefused) {
  for (
      const char* source :
      {"{}", "[]", "1", "{",
       R"({"free": "maybe", "trigger": "", "begin": "", "between": "", "end": "", "tags": []})",
       R"({"free": "none", "trigger": "", "begin": "", "between": "", "end": "", "tags": []})",
       R"({"free": "none", "trigger": "", "begin": "", "between": "", "end": "", "tags": [1]})",
       R"({"free": "before", "trigger": "x", "begin": "y", "between": "", "end": "", "tags": [{"begin": "", "schema": {}, "strict": true}]})"}) {
    const auto refused =
        Constraint::compile(*model_, {.kind = ConstraintKind::tags, .text = source});
    ASSERT_FALSE(refused.has_value()) << source;
    EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument) << source;
  }
}

}  // namespace
}  // namespace runnel

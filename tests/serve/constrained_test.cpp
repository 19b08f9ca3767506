// SPDX-License-Identifier: Apache-2.0
// Requests that say what their answer must be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runnel/constraint.h"
#include "tests/serve/fixture.h"

namespace runnel::test {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

class Constrained : public Serving {
 protected:
  void SetUp() override {
    if (!has_constraints()) GTEST_SKIP() << "this build has no RUNNEL_GRAMMAR";
    start();
  }
  /// A chat whose text ends where the constraint says.
  Reply ask(Json more) const {
    more["ignore_end"] = false;
    return chat("Hello", more);
  }
  const Json schema_ = {{"type", "object"},
                        {"properties", {{"ok", {{"type", "boolean"}}}, {"n", {{"enum", {1, 2}}}}}},
                        {"required", {"ok", "n"}},
                        {"additionalProperties", false}};
};

TEST_F(Constrained, AnswersWithJsonOfASchema) {
  const Json format = {{"type", "json_schema"},
                       {"json_schema", {{"name", "it"}, {"strict", true}, {"schema", schema_}}}};
  const Reply reply = ask({{"response_format", format}, {"max_tokens", 100}});
  ASSERT_EQ(reply.status, 200) << reply.raw;
  const Json answer = Json::parse(text(reply));
  EXPECT_TRUE(answer.at("ok").is_boolean());
  EXPECT_TRUE(answer.at("n") == 1 || answer.at("n") == 2);
  EXPECT_EQ(reply.body.at("choices").at(0).at("finish_reason"), "stop");
}

TEST_F(Constrained, TakesTheFieldsOfOtherServers) {
  const Reply guided = ask({{"guided_json", schema_}, {"max_tokens", 100}});
  ASSERT_EQ(guided.status, 200) << guided.raw;
  EXPECT_TRUE(Json::parse(text(guided)).contains("ok"));
  EXPECT_THAT(text(ask({{"guided_choice", {"left", "right"}}})), AnyOf("left", "right"));
  EXPECT_THAT(text(ask({{"guided_regex", "[0-9]{4}"}})), MatchesRegex("[0-9]{4}"));
  EXPECT_THAT(text(ask({{"grammar", "root ::= \"a\" \"b\"?"}})), AnyOf("a", "ab"));
}

TEST_F(Constrained, ACompletionHasThemToo) {
  const Reply reply = post("/v1/completions", {{"prompt", "Hello"}, {"guided_regex", "(ab){3}"}});
  ASSERT_EQ(reply.status, 200) << reply.raw;
  EXPECT_EQ(reply.body.at("choices").at(0).at("text"), "ababab");
}

TEST_F(Constrained, ASchemaThatSaysNothingOfStrictnessHasItsPropertiesAlone) {
  const Json schema = {{"type", "object"},
                       {"properties", {{"a", {{"enum", {1, 2}}}}, {"b", {{"type", "object"}}}}},
                       {"required", {"a"}}};
  for (int seed = 0; seed < 6; ++seed) {
    const Reply reply =
        ask({{"response_format",
              {{"type", "json_schema"}, {"json_schema", {{"name", "it"}, {"schema", schema}}}}},
             {"temperature", 1.5},
             {"seed", seed},
             {"max_tokens", 400}});
    ASSERT_EQ(reply.status, 200) << reply.raw;
    if (reply.body.at("choices").at(0).at("finish_reason") != "stop") continue;  // a long "b"
    const Json answer = Json::parse(text(reply));
    for (const auto& [name, value] : answer.items())
      EXPECT_TRUE(name == "a" || name == "b") << name;
  }
}

TEST_F(Constrained, ACutAnswerSaysSo) {
  const Reply reply = ask({{"guided_regex", "[a-z]{40}"}, {"max_tokens", 5}});
  ASSERT_EQ(reply.status, 200) << reply.raw;
  EXPECT_THAT(text(reply), MatchesRegex("[a-z]{5}"));
  EXPECT_EQ(reply.body.at("choices").at(0).at("finish_reason"), "length");
}

TEST_F(Constrained, SeveralAnswersAllFit) {
  const Reply reply =
      ask({{"guided_regex", "[ab]{6}"}, {"n", 3}, {"temperature", 2.0}, {"seed", 4}});
  ASSERT_EQ(reply.status, 200) << reply.raw;
  ASSERT_EQ(reply.body.at("choices").size(), 3U);
  for (const Json& choice : reply.body.at("choices"))
    EXPECT_THAT(choice.at("message").at("content").get<std::string>(), MatchesRegex("[ab]{6}"));
}

TEST_F(Constrained, WhatCannotBeCompiledIsRefusedByItsField) {
  const std::vector<std::pair<const char*, Json>> fields = {
      {"guided_regex", "(ab"},
      {"grammar", "a ::= \"b\""},
      {"guided_choice", Json::array()},
      {"guided_json", {{"type", "string"}, {"not", Json::object()}}},
      {"response_format", {{"type", "yaml"}}},
      {"response_format", {{"type", "json_schema"}}},
      {"response_format", "json"},
  };
  for (const auto& [name, value] : fields) {
    const Reply reply = ask({{name, value}});
    EXPECT_EQ(reply.status, 400) << name << ": " << reply.raw;
    EXPECT_EQ(reply.body.at("error").at("param"), name) << reply.raw;
  }
  const Reply both = ask({{"guided_regex", "a"}, {"grammar", "root ::= \"a\""}});
  EXPECT_EQ(both.status, 400);
  EXPECT_THAT(both.body.at("error").at("message").get<std::string>(), HasSubstr("guided_regex"));
}

}  // namespace
}  // namespace runnel::test

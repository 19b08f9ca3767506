// SPDX-License-Identifier: Apache-2.0
// Which texts a constraint takes, which tokens it forces, and that it is compiled once.
#include "runnel/constraint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/constraint/byte_model.h"

namespace runnel::test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

using ConstraintTest = ByteModelTest;

constexpr const char* kPerson =
    R"({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name", "age"]})";

TEST_F(ConstraintTest, TakesWhatASchemaDescribes) {
  const auto person = compile({.kind = ConstraintKind::json_schema, .text = kPerson});
  EXPECT_TRUE(person->accepts(R"({"name": "Ada", "age": 36})"));
  EXPECT_TRUE(person->accepts(R"({"name": "\u00e4 \"x\"", "age": -1})"));
  EXPECT_FALSE(person->accepts(R"({"name": "Ada"})"));
  EXPECT_FALSE(person->accepts(R"({"name": "Ada", "age": 3.5})"));
  EXPECT_FALSE(person->accepts(R"({"name": "Ada", "age": 36, "more": 1})"));
  EXPECT_FALSE(person->accepts(R"({"name": "Ada", "age": 36)"));
  EXPECT_FALSE(person->accepts(""));
}

TEST_F(ConstraintTest, WithoutStrictnessAllowsOtherPropertiesAndWhiteSpace) {
  const auto person =
      compile({.kind = ConstraintKind::json_schema, .text = kPerson, .strict = false});
  EXPECT_TRUE(person->accepts(R"({"name":"Ada","age":36})"));
  EXPECT_TRUE(person->accepts("{ \"name\" : \"Ada\",\n  \"age\" : 36, \"more\": [1, {}] }"));
  EXPECT_FALSE(person->accepts(R"({"name": 1, "age": 36})"));
}

TEST_F(ConstraintTest, TakesAnyObjectAsJsonObject) {
  const auto object = compile({.kind = ConstraintKind::json_object, .text = {}, .strict = false});
  EXPECT_TRUE(object->accepts("{}"));
  EXPECT_TRUE(object->accepts(R"({"a":[1,2.5e3,null,true,{"b":"c"}]})"));
  EXPECT_FALSE(object->accepts("[]"));
  EXPECT_FALSE(object->accepts("{\"a\":}"));
}

TEST_F(ConstraintTest, TakesWhatAnExpressionMatchesAsAWhole) {
  const auto date = compile({.kind = ConstraintKind::regex, .text = R"(\d{4}-\d{2}-\d{2}|never)"});
  EXPECT_TRUE(date->accepts("2026-11-24"));
  EXPECT_TRUE(date->accepts("never"));
  EXPECT_FALSE(date->accepts("2026-11-2"));
  EXPECT_FALSE(date->accepts("2026-11-245"));
}

TEST_F(ConstraintTest, TakesOneOfItsChoices) {
  const std::vector<std::string> texts = {"yes", "no", "yes, \"sure\"\n", "\xC3\xA4"};
  const auto choice = Constraint::choice(*model_, texts);
  ASSERT_TRUE(choice) << choice.error().message;
  for (const std::string& text : texts) EXPECT_TRUE((*choice)->accepts(text)) << text;
  EXPECT_FALSE((*choice)->accepts("ye"));
  EXPECT_FALSE((*choice)->accepts("yesno"));
}

TEST_F(ConstraintTest, TakesWhatAGrammarDescribes) {
  const auto sum = compile({.kind = ConstraintKind::gbnf,
                            .text = "root ::= term (\" + \" term)*\n"
                                    "term ::= [0-9]+ | \"(\" root \")\"  # recursive\n"});
  EXPECT_TRUE(sum->accepts("1 + (23 + 4) + 5"));
  EXPECT_FALSE(sum->accepts("1 + (23 + 4"));
  EXPECT_FALSE(sum->accepts("1+2"));
}

TEST_F(ConstraintTest, FollowsARecursiveSchema) {
  const auto tree = compile(
      {.kind = ConstraintKind::json_schema,
       .text = R"({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties":
                   {"left": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/node"}]}}, "required": ["left"]}}})"});
  EXPECT_TRUE(tree->accepts(R"({"left": {"left": {"left": null}}})"));
  EXPECT_FALSE(tree->accepts(R"({"left": {"left": {"left": 1}}})"));
}

TEST_F(ConstraintTest, ForcesWhatAloneCanFollow) {
  const auto greeting = compile({.kind = ConstraintKind::regex, .text = "abc[xy]de"});
  const auto ids = [&](const std::string& text) { return *model_->encode(text); };
  const auto first = greeting->forced({});
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(*first, ids("abc"));
  const auto two = greeting->forced({}, 2);
  ASSERT_TRUE(two);
  EXPECT_EQ(*two, ids("ab"));
  const auto open = greeting->forced(ids("abc"));
  ASSERT_TRUE(open);
  EXPECT_THAT(*open, IsEmpty());
  const auto wrong = greeting->forced(ids("abd"));
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, ErrorCode::invalid_argument);
}

TEST_F(ConstraintTest, IsCompiledOnceForTheSameSource) {
  const ConstraintSource source{.kind = ConstraintKind::regex, .text = "[ab]+"};
  const auto one = compile(source);
  EXPECT_EQ(one, compile(source));
  EXPECT_EQ(one->source(), source);
  EXPECT_EQ(one->model_fingerprint(), model_->info().fingerprint);
  const auto other = compile({.kind = ConstraintKind::regex, .text = "[ab]*"});
  EXPECT_NE(one->hash(), other->hash());
  EXPECT_GT(one->bytes(), 0U);
}

}  // namespace
}  // namespace runnel::test

// SPDX-License-Identifier: Apache-2.0
// Sources that are none, or that ask for what is not supported: an error by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/constraint/byte_model.h"

namespace runnel::test {
namespace {

using ::testing::HasSubstr;

struct Bad {
  const char* name;
  ConstraintKind kind;
  std::string text;
  const char* message;
  ErrorCode code = ErrorCode::invalid_argument;
};

std::string nested(const std::string& open, const std::string& middle, const std::string& close,
                   int depth) {
  std::string all;
  for (int i = 0; i < depth; ++i) all += open;
  all += middle;
  for (int i = 0; i < depth; ++i) all += close;
  return all;
}

const std::vector<Bad> kBad = {
    {"not_json", ConstraintKind::json_schema, "{\"type\": ", "schema"},
    {"no_schema", ConstraintKind::json_schema, "[1, 2]", "schema"},
    {"not", ConstraintKind::json_schema, R"({"type": "string", "not": {"const": "a"}})", "\"not\""},
    {"unique_items", ConstraintKind::json_schema, R"({"type": "array", "uniqueItems": true})",
     "\"uniqueItems\""},
    {"inner", ConstraintKind::json_schema,
     R"({"properties": {"a": {"if": {"minimum": 3}, "then": {"maximum": 9}}}, "type": "object"})",
     "\"if\""},
    {"unevaluated", ConstraintKind::json_schema,
     R"({"type": "object", "anyOf": [{"required": ["a"]}], "unevaluatedProperties": false})",
     "\"unevaluatedProperties\""},
    {"overlap", ConstraintKind::json_schema,
     R"({"oneOf": [{"type": "integer"}, {"type": "number", "minimum": 2}]})", "\"oneOf\""},
    {"pattern_and_length", ConstraintKind::json_schema,
     R"({"type": "string", "pattern": "^a*$", "maxLength": 3})", "\"maxLength\""},
    {"look_ahead", ConstraintKind::json_schema, R"({"type": "string", "pattern": "^(?=a)b$"})",
     "Lookahead"},
    {"anchor_within", ConstraintKind::json_schema, R"({"type": "string", "pattern": "a^b"})",
     "pattern"},
    {"fine_multiples", ConstraintKind::json_schema, R"({"type": "number", "multipleOf": 0.1})",
     "\"multipleOf\""},
    {"two_patterns", ConstraintKind::json_schema,
     R"({"type": "object", "patternProperties": {"a": {}, "b": {}}})", "\"patternProperties\""},
    {"many_names", ConstraintKind::json_schema,
     R"({"type": "object", "minProperties": 2, "additionalProperties": {"type": "null"}})",
     "\"minProperties\""},
    {"required_of_no_value", ConstraintKind::json_schema,
     R"({"type": "object", "properties": {"a": false}, "required": ["a"]})", "no value"},
    {"ill_formed_keyword", ConstraintKind::json_schema, R"({"type": "object", "required": "a"})",
     "\"required\""},
    {"around_in_place", ConstraintKind::json_schema,
     R"({"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}]}}, "$ref": "#/$defs/a"})",
     "circle"},
    {"reference", ConstraintKind::json_schema, R"({"$ref": "#/$defs/nothing"})", "$ref"},
    {"far_reference", ConstraintKind::json_schema, R"({"$ref": "https://example.org/schema.json"})",
     "$ref"},
    {"loop", ConstraintKind::json_schema, R"({"$ref": "#"})", ""},
    {"impossible", ConstraintKind::json_schema, "false", ""},
    {"impossible_array", ConstraintKind::json_schema,
     R"({"type": "array", "items": {"type": "null"}, "minItems": 4, "maxItems": 2})", ""},
    {"deep_schema", ConstraintKind::json_schema,
     nested("{\"type\": \"array\", \"items\": ", "{}", "}", 5000), ""},
    {"open_group", ConstraintKind::regex, "(ab", "regex"},
    {"deep_regex", ConstraintKind::regex, nested("(", "a", ")", 20000), "regex"},
    {"grammar_without_root", ConstraintKind::gbnf, "a ::= \"b\"", "root"},
    {"grammar_without_rule", ConstraintKind::gbnf, "root ::= missing", "missing"},
    {"left_recursion", ConstraintKind::gbnf, "root ::= root \"a\"", ""},
    {"deep_grammar", ConstraintKind::gbnf, "root ::= " + nested("(", "\"a\"", ")", 20000),
     "grammar"},
    {"no_choice", ConstraintKind::choice, "[]", "choice"},
    {"empty_choice", ConstraintKind::choice, "[\"\"]", "choice"},
    {"choice_of_numbers", ConstraintKind::choice, "[1, 2]", "choice"},
    {"empty", ConstraintKind::regex, "", "empty"},
    {"object_with_text", ConstraintKind::json_object, "{}", "expected none"},
    {"not_utf8", ConstraintKind::regex, "a\xFF", "UTF-8"},
    {"zero_byte", ConstraintKind::regex, std::string("a\0b", 3), "UTF-8"},
    {"too_large", ConstraintKind::gbnf, std::string(ConstraintSource::kMostBytes + 1, 'a'),
     "bytes"},
};

class BadSource : public ByteModelTest, public ::testing::WithParamInterface<Bad> {};

TEST_P(BadSource, IsRefusedInWords) {
  const Bad& bad = GetParam();
  const auto made = Constraint::compile(*model_, {.kind = bad.kind, .text = bad.text});
  ASSERT_FALSE(made) << "compiled";
  EXPECT_EQ(made.error().code, bad.code) << made.error().message;
  EXPECT_THAT(made.error().message, HasSubstr(bad.message));
  EXPECT_LT(made.error().message.size(), 500U);
}

INSTANTIATE_TEST_SUITE_P(, BadSource, ::testing::ValuesIn(kBad),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_F(ByteModelTest, TenThousandAndOneChoicesAreTooMany) {
  const std::vector<std::string> texts(ConstraintSource::kMostChoices + 1, "a");
  const auto made = Constraint::choice(*model_, texts);
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message, HasSubstr("10000"));
}

}  // namespace
}  // namespace runnel::test

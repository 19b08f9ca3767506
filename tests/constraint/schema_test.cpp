// SPDX-License-Identifier: Apache-2.0
// What keywords of a schema mean beside one another, and what a schema without a type is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "runtime/constraint/grammar_engine.h"
#include "tests/constraint/byte_model.h"

namespace runnel::test {
namespace {

struct Case {
  const char* name;
  const char* schema;
  std::vector<const char*> good, bad;
  bool strict = false;
};

class Schema : public ByteModelTest, public ::testing::WithParamInterface<Case> {};

TEST_P(Schema, TakesWhatItDescribesAlone) {
  const Case& c = GetParam();
  const auto made = Constraint::json_schema(*model_, c.schema, c.strict);
  ASSERT_TRUE(made) << made.error().message;
  for (const char* const text : c.good) EXPECT_TRUE((*made)->accepts(text)) << text;
  for (const char* const text : c.bad) EXPECT_FALSE((*made)->accepts(text)) << text;
}

const std::vector<Case> kCases = {
    {"type_not_named", R"({"minimum": 3})", {"3", "\"a\"", "[]", "{}", "null"}, {"2"}},
    {"type_meant", R"({"minimum": 3})", {"3"}, {"2", "\"a\"", "null"}, true},
    {"object_meant",
     R"({"properties": {"a": {"type": "null"}}, "required": ["a"]})",
     {R"({"a": null})"},
     {"{}", "1"},
     true},
    {"required_unnamed", R"({"required": ["a"]})", {R"({"a":1})", "2"}, {"{}"}},
    {"enum_beside_bounds", R"({"enum": [1, 5, "x"], "minimum": 3})", {"5", "\"x\""}, {"1"}},
    {"const_written_whole", R"({"const": 1.0})", {"1"}, {"2"}},
    {"all_of",
     R"({"allOf": [{"type": "integer", "minimum": 3}, {"maximum": 5}]})",
     {"3", "5"},
     {"2", "6", "\"a\""}},
    {"all_of_objects",
     R"({"allOf": [{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
                   {"properties": {"a": {"minimum": 2}, "b": {"type": "null"}}, "required": ["b"]}]})",
     {R"({"a":2,"b":null})"},
     {R"({"a":1,"b":null})", R"({"a":2})"}},
    {"any_of_beside",
     R"({"anyOf": [{"type": "string"}, {"type": "integer"}], "maxLength": 2, "minimum": 1})",
     {"\"ab\"", "1"},
     {"\"abc\"", "0", "null"}},
    {"one_of_types", R"({"oneOf": [{"type": "null"}, {"enum": [1, 2]}]})", {"null", "1"}, {"3"}},
    {"one_of_twice", R"({"oneOf": [{"enum": [1, 2]}, {"enum": [2, 3]}]})", {"1", "3"}, {"2"}},
    {"not_a_type", R"({"not": {"type": ["string", "object"]}})", {"1", "[]"}, {"\"a\"", "{}"}},
    {"not_a_value", R"({"enum": [1, 2, 3], "not": {"const": 2}})", {"1", "3"}, {"2"}},
    {"if_a_value",
     R"({"enum": [1, 2, "a"], "if": {"type": "integer"}, "then": {"minimum": 2}})",
     {"2", "\"a\""},
     {"1"}},
    {"reference_beside",
     R"({"$ref": "#/$defs/a~1b", "minimum": 2, "$defs": {"a/b": {"type": "integer"}}})",
     {"2"},
     {"1", "2.5"}},
    {"anchor",
     R"({"$ref": "#x", "$defs": {"a": {"$anchor": "x", "type": "null"}}})",
     {"null"},
     {"1"}},
    {"recursive_all_of",
     R"({"$ref": "#/$defs/t", "$defs": {"t": {"allOf": [{"type": "object", "properties": {"t": {"$ref": "#/$defs/t"}}},
         {"properties": {"n": {"type": "integer"}}}]}}})",
     {R"({"t":{"t":{"n":1}}})"},
     {R"({"t":{"t":{"n":"a"}}})"}},
    {"old_tuple",
     R"({"type": "array", "items": [{"type": "null"}], "additionalItems": {"type": "integer"}})",
     {"[]", "[null]", "[null,1]"},
     {"[1]", "[null,null]"}},
    {"old_bound", R"({"type": "integer", "minimum": 3, "exclusiveMinimum": true})", {"4"}, {"3"}},
    {"broken_bound", R"({"type": "integer", "minimum": 2.5})", {"3"}, {"2"}},
    {"multiples", R"({"type": "number", "multipleOf": 5})", {"0", "-15"}, {"3", "2.5"}},
    {"no_more_items",
     R"({"type": "array", "prefixItems": [{"type": "null"}, false]})",
     {"[]", "[null]"},
     {"[null,1]"}},
    {"no_more_names",
     R"({"type": "object", "properties": {"a": true}, "unevaluatedProperties": false})",
     {"{}", R"({"a":1})"},
     {R"({"b":1})"}},
    {"property_forbidden",
     R"({"type": "object", "properties": {"a": true, "b": false}})",
     {R"({"a":1})"},
     {R"({"b":1})"}},
    {"names_with_escapes",
     "{\"type\": \"object\", \"properties\": {\"a\\\"b\": {\"type\": \"null\"}, \"ü\": {\"type\": "
     "\"null\"}}}",
     {R"({"a\"b":null})", "{\"ü\":null}", R"({"other":1})"},
     {R"({"a\"b":1})", "{\"ü\":1}", R"({"\u00fc":1})", R"({"a\u0022b":1})"}},
    {"names_by_escape",
     R"({"type": "object", "properties": {"ab": {"type": "null"}}})",
     {R"({"ab":null})", R"({"ac":1})"},
     {R"({"a\u0062":1})", R"({"\u0061b":1})"}},
    {"pattern_within", R"({"type": "string", "pattern": "b+"})", {"\"abbc\""}, {"\"ac\""}},
    {"pattern_ends", R"({"type": "string", "pattern": "^a|b$"})", {"\"ac\"", "\"cb\""}, {"\"cc\""}},
    {"pattern_strict", R"({"type": "string", "pattern": "b+"})", {"\"bb\""}, {"\"abb\""}, true},
    {"pattern_is_json",
     R"({"type": "string", "pattern": "^.+$"})",
     {"\"ä!\""},
     {"\"a\"b\"", "\"\\\""}},
    {"length_is_json",
     R"({"type": "string", "maxLength": 3})",
     {"\"äöü\""},
     {"\"a\tb\"", "\"abcd\""}},
    {"names_of_a_kind",
     R"({"type": "object", "propertyNames": {"enum": ["a", "b"]}, "maxProperties": 1})",
     {"{}", R"({"a":1})"},
     {R"({"c":1})"}},
    {"names_beside_properties",
     R"({"type": "object", "properties": {"a": true, "bcd": true}, "propertyNames": {"maxLength": 2}})",
     {R"({"a":1})"},
     {R"({"bcd":1})"}},
    {"free_items_strict", R"({"type": "array", "minItems": 1})", {"[1, \"a\"]"}, {"[]"}, true},
    {"nothing_left_is_left_out",
     R"({"anyOf": [{"type": "integer", "minimum": 3, "maximum": 2}, {"type": "null"}]})",
     {"null"},
     {"3"}},
};

INSTANTIATE_TEST_SUITE_P(, Schema, ::testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

/// A text of bytes that the grammar allows, drawn at random with a liking for ends; empty if it did not end in time.
std::string drawn(GrammarMatcher& matcher, std::size_t words, std::mt19937& random) {
  constexpr int kMostBytes = 400, kSoon = 40;
  std::vector<std::uint32_t> mask(words);
  std::string text;
  while (text.size() < kMostBytes) {
    if (matcher.complete()) return text;
    if (!matcher.mask(mask)) return {};
    std::vector<TokenId> may;
    bool quote = false;
    for (TokenId t = 0; t < 256; ++t) {
      const auto at = static_cast<std::size_t>(t);
      if (((mask[at / 32] >> (at % 32)) & 1U) == 0) continue;
      may.push_back(t);
      quote = quote || t == '"';
    }
    if (may.empty()) return {};
    const bool end = quote && text.size() > kSoon;
    const TokenId next = end ? TokenId{'"'} : may[random() % may.size()];
    if (!matcher.accept(next)) return {};
    text += static_cast<char>(next);
  }
  return {};
}

// Whatever is drawn is JSON, whatever a model would say.
class Text : public ::testing::TestWithParam<const char*> {};

TEST_P(Text, IsWrittenAsJson) {
  GrammarVocabulary bytes;
  for (int b = 0; b < 256; ++b) bytes.pieces.emplace_back(1, static_cast<char>(b));
  bytes.pieces.emplace_back();
  bytes.ends = {256};
  const auto compiler = runnel_grammar_engine()->compiler(bytes);
  ASSERT_TRUE(compiler);
  const auto grammar =
      (*compiler)->compile({.kind = ConstraintKind::json_schema, .text = GetParam()});
  ASSERT_TRUE(grammar) << grammar.error().message;
  std::mt19937 random(3);
  int ended = 0;
  for (int i = 0; i < 100; ++i) {
    const auto matcher = (*grammar)->begin();
    ASSERT_TRUE(matcher);
    const std::string text = drawn(**matcher, (257 + 31) / 32, random);
    if (text.empty()) continue;
    ++ended;
    EXPECT_TRUE(nlohmann::json::accept(text)) << text;
  }
  EXPECT_GT(ended, 10);
}

INSTANTIATE_TEST_SUITE_P(
    , Text,
    ::testing::Values(
        R"({"type": "string"})", R"({"type": "string", "maxLength": 30})",
        R"({"type": "string", "pattern": "^[^a]*$"})", R"({"type": "string", "pattern": "^\\S+$"})",
        R"({"type": "string", "format": "email"})", R"({"type": "string", "format": "date-time"})",
        R"({"type": "string", "format": "uri"})", R"({"type": "string", "format": "uri-template"})",
        R"({"type": "string", "format": "json-pointer"})",
        R"({"type": "string", "format": "relative-json-pointer"})",
        R"({"type": "string", "format": "hostname"})", R"({"type": "string", "format": "ipv6"})",
        R"({"type": "string", "format": "duration"})"));

}  // namespace
}  // namespace runnel::test

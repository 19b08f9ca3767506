// SPDX-License-Identifier: Apache-2.0
// JSON from outside: bounded, and messages that do not repeat it.
#include "runtime/text/json_file.h"

#include <gtest/gtest.h>

#include <string>

namespace runnel {
namespace {

constexpr std::size_t kLongestMessage = 256;

std::string nested(std::size_t levels) {
  return "{\"n\": " + std::string(levels, '[') + std::string(levels, ']') + "}";
}

TEST(JsonFile, ReadsWhatIsWithinItsLimits) {
  const auto value = parse_json(nested(63), "the text");
  ASSERT_TRUE(value) << value.error().message;
  EXPECT_TRUE(value->at("n").is_array());
}

TEST(JsonFile, RefusesWhatIsNestedTooDeep) {
  for (const std::size_t levels : {64U, 60'000U, 1'000'000U}) {
    const auto value = parse_json(nested(levels), "the text");
    ASSERT_FALSE(value) << levels;
    EXPECT_EQ(value.error().code, ErrorCode::unsupported);
    EXPECT_EQ(value.error().message, "the text: is nested deeper than 64 levels");
  }
}

TEST(JsonFile, BracketsInTextsAreNoLevels) {
  EXPECT_TRUE(parse_json(
      "{\"n\": \"" + std::string(200, '[') + "\\\"" + std::string(200, '{') + "\"}", "the text"));
}

TEST(JsonFile, RefusesWhatIsTooLong) {
  const auto value = parse_json("[1, 2, 3, 4]", "the text", {.bytes = 11});
  ASSERT_FALSE(value);
  EXPECT_EQ(value.error().message, "the text: has 12 bytes, at most 11 are read");
}

TEST(JsonFile, RefusesAKeyThatComesTwiceWhereAsked) {
  const std::string twice = R"({"a": {"b": 1, "c": {"b": 2}}, "d": [{"b": 1}, {"b": 2, "b": 3}]})";
  EXPECT_TRUE(parse_json(twice, "the text"));
  const auto value = parse_json(twice, "the text", {.unique_keys = true});
  ASSERT_FALSE(value);
  EXPECT_EQ(value.error().code, ErrorCode::malformed);
  EXPECT_EQ(value.error().message, "the text: has the key 'b' twice");
  EXPECT_TRUE(parse_json(R"({"a": {"a": 1}, "b": [{"a": 1}, {"a": 2}]})", "the text",
                         {.unique_keys = true}))
      << "the same key in different objects";
}

TEST(JsonFile, MessagesStayShort) {
  const std::string secret(100'000, 'x');
  for (const std::string& text :
       {"\"" + secret, "{\"" + secret + "\": 1, \"" + secret + "\": 1}", secret, "[1e" + secret}) {
    const auto value = parse_json(text, "the text", {.unique_keys = true});
    ASSERT_FALSE(value);
    EXPECT_LT(value.error().message.size(), kLongestMessage);
  }
}

}  // namespace
}  // namespace runnel

// SPDX-License-Identifier: Apache-2.0
// Which objects are closed: those that list properties, unless schemas are put together.
#include "runtime/constraint/closed_schema.h"

#include <gtest/gtest.h>

#include <string>

namespace runnel::test {
namespace {

std::string closed(const char* schema) {
  return closed_schema(nlohmann::ordered_json::parse(schema)).dump();
}
std::string plain(const char* schema) { return nlohmann::ordered_json::parse(schema).dump(); }

TEST(ClosedSchema, ObjectsThatListPropertiesHaveNoOthers) {
  EXPECT_EQ(
      closed(
          R"({"type": "object", "properties": {"a": {"properties": {"b": {}}}, "list": {"items": {"$ref": "#/$defs/p"}}},
                 "$defs": {"p": {"properties": {"properties": {"type": "object"}}}}})"),
      plain(
          R"({"type": "object", "properties": {"a": {"properties": {"b": {}}, "additionalProperties": false},
                 "list": {"items": {"$ref": "#/$defs/p"}}},
              "$defs": {"p": {"properties": {"properties": {"type": "object"}}, "additionalProperties": false}},
              "additionalProperties": false})"));
  EXPECT_EQ(closed(R"({"properties": {}})"),
            plain(R"({"properties": {}, "additionalProperties": false})"));
}

TEST(ClosedSchema, OthersStayAsTheyAre) {
  for (
      const char* schema :
      {R"({"type": "object"})", R"(true)", R"({"items": {"type": "object", "properties": {}}})",
       R"({"properties": {"a": {}}, "additionalProperties": {"type": "integer"}})",
       R"({"properties": {"a": {}}, "minProperties": 2})",
       R"({"enum": [{"properties": {"a": 1}}], "const": {"properties": {"a": 1}}})",
       R"({"allOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]})",
       R"({"$ref": "#/$defs/p", "properties": {"a": {}}, "$defs": {"p": {"properties": {"b": {}}}}})"})
    EXPECT_EQ(closed(schema), plain(schema));
}

}  // namespace
}  // namespace runnel::test

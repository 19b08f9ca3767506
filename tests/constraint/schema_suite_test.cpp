// SPDX-License-Identifier: Apache-2.0
// JSON-Schema-Test-Suite, which is not in the tree: RUNNEL_JSON_SUITE names its folder tests/DRAFT (as in the source
// distribution of jsonschema, json/tests/draft2020-12). No invalid instance may be accepted; the share of valid ones, written in
// the order of the schema, is reported by keyword.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/constraint/byte_model.h"

namespace runnel::test {
namespace {

using Json = nlohmann::ordered_json;

/// The same value, its objects' names in the order of the schema's properties.
Json in_order(const Json& value, const Json& schema) {
  if (value.is_array()) {
    const Json inner = schema.is_object() && schema.contains("items") ? schema["items"] : Json();
    Json out = Json::array();
    for (const Json& one : value) out.push_back(in_order(one, inner));
    return out;
  }
  if (!value.is_object()) return value;
  Json out = Json::object();
  if (schema.is_object() && schema.contains("properties") && schema["properties"].is_object()) {
    for (const auto& [name, part] : schema["properties"].items())
      if (value.contains(name)) out[name] = in_order(value[name], part);
  }
  for (const auto& [name, one] : value.items())
    if (!out.contains(name)) out[name] = one;
  return out;
}

struct Tally {
  int schemas = 0, refused = 0, valid = 0, accepted = 0, invalid = 0, wrong = 0;
};

TEST_F(ByteModelTest, AcceptsNothingThatTheSuiteCallsInvalid) {
  const char* const folder = std::getenv("RUNNEL_JSON_SUITE");
  if (folder == nullptr)
    GTEST_SKIP() << "RUNNEL_JSON_SUITE names no folder of JSON-Schema-Test-Suite";
  std::map<std::string, Tally> tallies;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    if (file.path().extension() != ".json") continue;
    std::ifstream in(file.path());
    const Json groups = Json::parse(in);
    Tally& tally = tallies[file.path().stem().string()];
    for (const Json& group : groups) {
      ++tally.schemas;
      const auto made = Constraint::json_schema(*model_, group["schema"].dump(), false);
      if (!made) {
        ++tally.refused;
        continue;
      }
      for (const Json& test : group["tests"]) {
        const std::string text = in_order(test["data"], group["schema"]).dump();
        const bool accepted = (*made)->accepts(text);
        if (test["valid"].get<bool>()) {
          ++tally.valid;
          tally.accepted += accepted ? 1 : 0;
        } else {
          ++tally.invalid;
          tally.wrong += accepted ? 1 : 0;
          EXPECT_FALSE(accepted) << file.path().stem() << ": " << group["description"] << ": "
                                 << test["description"] << ": " << text;
        }
      }
    }
  }
  Tally all;
  for (const auto& [name, t] : tallies) {
    std::printf(
        "%-28s schemas %3d, refused %3d; valid %3d of %3d accepted; invalid %3d of %3d accepted\n",
        name.c_str(), t.schemas, t.refused, t.accepted, t.valid, t.wrong, t.invalid);
    all.schemas += t.schemas, all.refused += t.refused, all.valid += t.valid,
        all.accepted += t.accepted;
    all.invalid += t.invalid, all.wrong += t.wrong;
  }
  std::printf(
      "all: %d schemas, %d refused by name; valid %d of %d accepted; invalid %d of %d accepted\n",
      all.schemas, all.refused, all.accepted, all.valid, all.wrong, all.invalid);
  EXPECT_GT(all.schemas, 0);
}

}  // namespace
}  // namespace runnel::test

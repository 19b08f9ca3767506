// SPDX-License-Identifier: Apache-2.0
// JSON-Schema-Test-Suite, which is not in the tree: RUNNEL_JSON_SUITE names its folder tests/DRAFT (as in the source
// distribution of jsonschema, json/tests/draft2020-12). No invalid instance may be accepted; the share of valid ones, written
// compactly in the order of the schema, is reported by keyword, with what was refused and why.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/constraint/byte_model.h"

namespace runnel::test {
namespace {

using Json = nlohmann::ordered_json;

/// The same value, its objects' names in the order of the schema's properties and whole numbers without a fraction: what
/// the suite writes as 1.0 is written 1.
Json as_written(const Json& value, const Json& schema) {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (value.is_number_float()) {
    const auto number = value.get<double>();
    if (std::floor(number) == number && std::abs(number) <= kExact)
      return static_cast<std::int64_t>(number);
    return value;
  }
  if (value.is_array()) {
    const Json inner = schema.is_object() && schema.contains("items") ? schema["items"] : Json();
    Json out = Json::array();
    for (const Json& one : value) out.push_back(as_written(one, inner));
    return out;
  }
  if (!value.is_object()) return value;
  Json out = Json::object();
  if (schema.is_object() && schema.contains("properties") && schema["properties"].is_object()) {
    for (const auto& [name, part] : schema["properties"].items())
      if (value.contains(name)) out[name] = as_written(value[name], part);
  }
  for (const auto& [name, one] : value.items())
    if (!out.contains(name)) out[name] = as_written(one, Json());
  return out;
}

/// Compact texts of a value: of an object in every order of its names, the schema's first. A schema made of several, or of
/// references, has an order that cannot be read off it here.
std::vector<std::string> texts_of(const Json& value, const Json& schema) {
  const Json first = as_written(value, schema);
  std::vector<std::string> texts = {first.dump()};
  constexpr std::size_t kMostNames = 5;
  if (!first.is_object() || first.size() > kMostNames) return texts;
  std::vector<std::string> names;
  for (const auto& [name, part] : first.items()) names.push_back(name);
  std::ranges::sort(names);
  do {
    Json other = Json::object();
    for (const std::string& name : names) other[name] = first[name];
    texts.push_back(other.dump());
  } while (std::next_permutation(names.begin(), names.end()));
  return texts;
}

struct Tally {
  int schemas = 0, refused = 0, valid = 0, accepted = 0, invalid = 0, wrong = 0;
  bool fair() const { return 100 * accepted >= 95 * valid; }
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
        std::printf("refused: %s: %s: %s\n", file.path().stem().c_str(),
                    group["description"].get<std::string>().c_str(), made.error().message.c_str());
        continue;
      }
      for (const Json& test : group["tests"]) {
        const std::vector<std::string> texts = texts_of(test["data"], group["schema"]);
        const bool accepted = std::ranges::any_of(
            texts, [&](const std::string& text) { return (*made)->accepts(text); });
        const std::string& text = texts.front();
        if (test["valid"].get<bool>()) {
          ++tally.valid;
          tally.accepted += accepted ? 1 : 0;
          if (!accepted) {
            std::printf("valid, not accepted: %s: %s: %s: %s\n", file.path().stem().c_str(),
                        group["description"].get<std::string>().c_str(),
                        test["description"].get<std::string>().c_str(), text.c_str());
          }
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
  int keywords = 0, fair = 0;
  for (const auto& [name, t] : tallies) {
    if (t.valid > 0) {
      ++keywords;
      fair += t.fair() ? 1 : 0;
    }
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
  std::printf("%d of %d keywords with at least 95 %% of the valid ones\n", fair, keywords);
  EXPECT_GT(all.schemas, 0);
  EXPECT_GE(100 * all.accepted, 95 * all.valid);
}

}  // namespace
}  // namespace runnel::test

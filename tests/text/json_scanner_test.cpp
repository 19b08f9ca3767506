// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/json_scanner.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>

namespace runnel {
namespace {

TEST(JsonScanner, TakesContainersAndRefusesTheRest) {
  for (const char* whole :
       {"{}", "[]", " {\"a\": [1, -0.5e+3, true, null, \"\\u00e9\\n\"]} ", "[[[]], {\"b\":{}}]"})
    EXPECT_TRUE(is_json_container(whole)) << whole;
  for (const char* wrong :
       {"", "{", "1", "\"a\"", "{]", "[1,]", "{\"a\"}", "{\"a\":01}", "[1.]", "[tru]", "[\"\\x\"]",
        "[\"a\nb\"]", "{} {}", "{a:1}", "[- 1]", "[1e]", "{,}", "[,1]", "{\"a\":1,}"})
    EXPECT_FALSE(is_json_container(wrong)) << wrong;
}

TEST(JsonScanner, IsBoundedInDepth) {
  const auto nested = [](std::size_t n) { return std::string(n, '[') + std::string(n, ']'); };
  EXPECT_TRUE(is_json_container(nested(JsonScanner::kMostDepth)));
  EXPECT_FALSE(is_json_container(nested(JsonScanner::kMostDepth + 1)));
}

TEST(JsonScanner, AgreesWithAParserOnDamagedTexts) {
  const std::string good = R"({"a": [1, -2.5e3, {"b": "x\"y\\"}], "c": true, "d": null, "e": {}})";
  constexpr std::string_view kBytes = "{}[]\",:0123-+.eEtfnul\\ a";
  std::mt19937 random(7);
  int whole = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string text = good;
    for (unsigned i = 0; i < 1 + random() % 2; ++i)
      text[random() % text.size()] = kBytes[random() % kBytes.size()];
    const auto parsed = nlohmann::json::parse(text, nullptr, false);
    const bool is_one = parsed.is_structured();
    EXPECT_EQ(is_json_container(text), is_one) << text;
    whole += is_one ? 1 : 0;
  }
  EXPECT_GT(whole, 1000);
}

}  // namespace
}  // namespace runnel

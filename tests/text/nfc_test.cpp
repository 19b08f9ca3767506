// SPDX-License-Identifier: Apache-2.0
// Normal form C: all of Unicode against Python's unicodedata, and runs of marks made to take time.
#include "runtime/text/nfc.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>

#include "runtime/base/byte_reader.h"
#include "runtime/base/hash.h"
#include "runtime/text/utf8.h"
#include "tests/text/tokenizer_fixture.h"

namespace runnel {
namespace {

std::string nfc(std::string_view text) {
  std::string storage;
  return std::string(normalise_nfc(text, storage));
}

nlohmann::json vectors() { return test::read_json("nfc/vectors.json"); }

TEST(Nfc, RandomTextsAreAsInTheVectors) {
  const nlohmann::json all = vectors();
  ASSERT_EQ(all.at("texts").size(), 400U);
  for (const auto& c : all.at("texts")) {
    EXPECT_EQ(nfc(c.at("text").get<std::string>()), c.at("nfc").get<std::string>()) << c;
  }
}

TEST(Nfc, EveryCharacterBetweenOthersIsAsInTheVectors) {
  const nlohmann::json all = vectors();
  for (const auto& c : all.at("hashes")) {
    const std::string before = c.at("before"), after = c.at("after");
    Hasher hasher;
    std::string text;
    for (std::uint32_t character = 0; character < 0x110000; ++character) {
      if (character >= 0xD800 && character < 0xE000) continue;
      text = before;
      append_utf8(text, character);
      text += after;
      hasher.update(as_bytes(nfc(text)));
    }
    char hex[17];
    std::snprintf(hex, sizeof hex, "%016llx", static_cast<unsigned long long>(hasher.digest()));
    EXPECT_EQ(hex, c.at("hash").get<std::string>()) << c;
  }
}

TEST(Nfc, WhatIsNormalIsNotCopied) {
  for (const char* text : {"", "plain", "Straße, naïve, 你好, 한국어, Привет", "x\xCC\x80"}) {
    std::string storage;
    const std::string_view view = text;
    const std::string_view out = normalise_nfc(view, storage);
    EXPECT_EQ(out.data(), view.data()) << text;
    EXPECT_EQ(out.size(), view.size());
  }
}

TEST(Nfc, TwiceIsOnce) {
  const nlohmann::json all = vectors();
  std::string whole;
  for (const auto& c : all.at("texts")) whole += c.at("text").get<std::string>();
  const std::string once = nfc(whole);
  EXPECT_EQ(nfc(once), once);
}

TEST(Nfc, TextBeforeAndAfterAChangeStays) {
  EXPECT_EQ(nfc("Cafe\xCC\x81, Cafe\xCC\x81!"), "Café, Café!");
  EXPECT_EQ(nfc("e\xCC\x81"), "é");
  EXPECT_EQ(nfc("\xCC\x81"
                "e"),
            "\xCC\x81"
            "e");
}

TEST(Nfc, MillionsOfMarksAreNotQuadratic) {
  constexpr std::size_t kMarks = 1'000'000;
  // Marks of rising, falling and equal classes: U+0301 is of class 230, U+0323 of 220, U+0334 of 1.
  for (const char* pattern : {"\xCC\x81", "\xCC\x81\xCC\xA3", "\xCC\x81\xCC\xA3\xCC\xB4",
                              "\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8", "\xF0\x9D\x85\xA0"}) {
    std::string text = "a";
    for (std::size_t i = 0; i < kMarks; ++i) text += pattern;
    const auto start = std::chrono::steady_clock::now();
    const std::string out = nfc(text);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    EXPECT_LT(took.count(), 20.0);  // sanitizers and emulators included; quadratic would be hours
    EXPECT_LE(out.size(), 3 * text.size());
    EXPECT_EQ(nfc(out), out);
  }
}

}  // namespace
}  // namespace runnel

// SPDX-License-Identifier: Apache-2.0
// Utf8Stream: what people see does not depend on where tokens ended.
#include "runtime/text/utf8_stream.h"

#include <gtest/gtest.h>

#include "runtime/text/utf8.h"
#include "tests/text/tokenizer_fixture.h"

namespace runnel {
namespace {

using Random = test::Random;

constexpr const char* kReplacement = "\xEF\xBF\xBD";

std::string whole(std::string_view bytes) {
  Utf8Stream stream;
  std::string text(stream.push(bytes));
  return text + stream.flush();
}

TEST(Utf8Stream, HoldsACharacterBackUntilItIsWhole) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("a\xF0\x9F"), "a");
  EXPECT_EQ(stream.carry(), "\xF0\x9F");
  EXPECT_EQ(stream.push("\x91"), "");
  EXPECT_EQ(stream.push("\x8B!"), "👋!");
  EXPECT_EQ(stream.carry(), "");
  EXPECT_EQ(stream.flush(), "");
}

TEST(Utf8Stream, FlushTurnsAnUnfinishedCharacterIntoOneReplacement) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("\xF0\x9F\x91"), "");
  EXPECT_EQ(stream.flush(), kReplacement);
  EXPECT_EQ(stream.flush(), "");
}

TEST(Utf8Stream, CertainErrorsAreReplacedAtOnce) {
  Utf8Stream stream;
  EXPECT_EQ(stream.push("\xFF"), kReplacement);
  EXPECT_EQ(stream.push("\x80"), kReplacement);
  EXPECT_EQ(stream.push("\xC0"), kReplacement) << "begins only overlong forms";
  EXPECT_EQ(stream.push("\xE2\x82"), "");
  EXPECT_EQ(stream.push("x"), std::string(kReplacement) + "x");
}

TEST(Utf8Stream, ReplacesMaximalSubparts) {
  // Unicode 15, table 3-8 and its neighbours.
  const std::string r = kReplacement;
  EXPECT_EQ(whole("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(whole("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"), r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(whole("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"), r + r + r + r + r + "A" + r + r + "B");
  EXPECT_EQ(whole("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), r + r + r + r + "A");
}

TEST(Utf8Stream, AnySplitGivesTheSameText) {
  Random random(7);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes;
    const std::size_t length = random() % 24;
    while (bytes.size() < length) {
      switch (random() % 4) {
        case 0:
          bytes.push_back(static_cast<char>(random()));
          break;
        case 1:
          append_utf8(bytes, random() % 0x80U);
          break;
        case 2:
          append_utf8(bytes, 0xE000U + random() % 0x1000U);
          break;
        default:
          append_utf8(bytes, 0x10000U + random() % 0xFFFFFU);
      }
    }
    if (random() % 2 == 0 && !bytes.empty()) bytes.pop_back();
    const std::string expected = whole(bytes);
    EXPECT_EQ(first_invalid_utf8(expected), std::string_view::npos);
    if (first_invalid_utf8(bytes) == std::string_view::npos) {
      EXPECT_EQ(expected, bytes);
    }
    Utf8Stream stream;
    std::string text;
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t n = 1 + random() % 5;
      const std::string part(stream.push(std::string_view(bytes).substr(at, n)));
      EXPECT_EQ(first_invalid_utf8(part), std::string_view::npos);
      EXPECT_LE(stream.carry().size(), 3U);
      text += part;
      at += n;
      Utf8Stream restored;  // a snapshot at every split
      ASSERT_TRUE(restored.restore(stream.carry()).has_value());
      stream = restored;
    }
    EXPECT_EQ(text + stream.flush(), expected);
  }
}

TEST(Utf8Stream, RestoreRefusesWhatCannotBeACarry) {
  for (const char* carry : {"a", "\xFF", "\xC3\xA9", "\xF0\x9F\x91\x8B", "\xE2\x82x"}) {
    Utf8Stream stream;
    EXPECT_EQ(stream.push("\xC3"), "");
    const Status status = stream.restore(carry);
    ASSERT_FALSE(status.has_value()) << carry;
    EXPECT_EQ(status.error().code, ErrorCode::malformed);
    EXPECT_EQ(stream.carry(), "\xC3") << "an error leaves the stream as it was";
  }
}

TEST(Utf8, FindsTheFirstInvalidByte) {
  EXPECT_EQ(first_invalid_utf8("plain ASCII, longer than eight bytes"), std::string_view::npos);
  EXPECT_EQ(first_invalid_utf8("naïve 👋 text"), std::string_view::npos);
  EXPECT_EQ(first_invalid_utf8("12345678\xC3"), 8U);
  EXPECT_EQ(first_invalid_utf8("123\xED\xA0\x80"), 3U) << "a surrogate";
  EXPECT_EQ(first_invalid_utf8(""), std::string_view::npos);
}

}  // namespace
}  // namespace runnel

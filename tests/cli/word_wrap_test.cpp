// SPDX-License-Identifier: Apache-2.0
#include "app/cli/word_wrap.h"

#include <gtest/gtest.h>

namespace runnel::test {
namespace {

std::string wrap(std::string_view text, std::size_t columns, std::size_t piece) {
  cli::WordWrap wrap(columns);
  std::string out;
  for (std::size_t at = 0; at < text.size(); at += piece) out += wrap.push(text.substr(at, piece));
  return out + wrap.finish();
}

TEST(WordWrap, BreaksBetweenWordsForAnySplitOfTheText) {
  for (std::size_t piece = 1; piece < 12; ++piece) {
    EXPECT_EQ(wrap("the quick brown fox", 10, piece), "the quick\nbrown fox");
    EXPECT_EQ(wrap("ab cd ef", 5, piece), "ab cd\nef");  // exactly full
    EXPECT_EQ(wrap("a\n  b c\n\nd", 10, piece), "a\n  b c\n\nd");
    EXPECT_EQ(wrap("anything goes here", 0, piece), "anything goes here");
  }
}

TEST(WordWrap, CountsCharactersAndNotBytes) {
  EXPECT_EQ(wrap("\xC3\xA9\xC3\xA9\xC3\xA9 \xC3\xA9\xC3\xA9\xC3\xA9", 7, 2),
            "\xC3\xA9\xC3\xA9\xC3\xA9 \xC3\xA9\xC3\xA9\xC3\xA9");
}

TEST(WordWrap, AWordLongerThanTheLinePasses) {
  EXPECT_EQ(wrap("abcdefghijkl mn o", 5, 3), "abcdefghijkl mn\no");
}

}  // namespace
}  // namespace runnel::test

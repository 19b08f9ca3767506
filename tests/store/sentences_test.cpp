// SPDX-License-Identifier: Apache-2.0
// Where sentences begin and end.
#include "runtime/store/sentences.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace runnel {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> texts(std::string_view text) {
  std::vector<std::string> out;
  for (const Sentence& s : sentences_of(text))
    out.emplace_back(text.substr(s.range.begin, s.range.end - s.range.begin));
  return out;
}

TEST(Sentences, EndAtFullStopsWithTheirQuotes) {
  EXPECT_THAT(texts("  One. \"Two!\" (Three?)  Four..."),
              ElementsAre("One.", "\"Two!\"", "(Three?)", "Four..."));
}

TEST(Sentences, GoOnBehindAbbreviationsAndInNumbers) {
  EXPECT_THAT(texts("Mr. J. Smith paid 3.50 at 5 p.m. sharp. Then he left."),
              ElementsAre("Mr. J. Smith paid 3.50 at 5 p.m.", "sharp.", "Then he left."));
}

TEST(Sentences, LinesOfAListStandAlone) {
  EXPECT_THAT(texts("amber: 431\nviolet: 200"), ElementsAre("amber: 431", "violet: 200"));
}

TEST(Sentences, ALineBrokenForItsLengthGoesOn) {
  const std::string text =
      "This is a line that was broken because it was much too\nlong for the page.";
  EXPECT_THAT(texts(text), ElementsAre(text));
}

TEST(Sentences, AnEmptyLineBeginsAParagraph) {
  const auto sentences = sentences_of("One. Two.\n\nThree.");
  ASSERT_EQ(sentences.size(), 3U);
  EXPECT_TRUE(sentences[0].paragraph);
  EXPECT_FALSE(sentences[1].paragraph);
  EXPECT_TRUE(sentences[2].paragraph);
}

TEST(Sentences, LongOnesAreCutBetweenWordsAndCharacters) {
  std::string words;
  while (words.size() < 3 * kLongestSentence) words += "word ";
  for (const std::string& part : texts(words)) {
    EXPECT_LE(part.size(), kLongestSentence);
    EXPECT_TRUE(part.starts_with("word") && part.ends_with("word")) << part;
  }
  std::string umlauts;
  while (umlauts.size() < 2 * kLongestSentence) umlauts += "ä";
  std::string joined;
  for (const std::string& part : texts(umlauts)) {
    EXPECT_TRUE(part.starts_with("ä"));
    joined += part;
  }
  EXPECT_EQ(joined, umlauts);
}

TEST(Sentences, NothingHasNone) {
  EXPECT_TRUE(sentences_of("").empty());
  EXPECT_TRUE(sentences_of(" \n\n ").empty());
}

}  // namespace
}  // namespace runnel

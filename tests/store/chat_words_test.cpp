// SPDX-License-Identifier: Apache-2.0
// Words as they are compared: folded, stemmed, and what kind of question they make.
#include "runtime/store/chat_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace runnel {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> folded(std::string_view text) {
  std::vector<std::string> words;
  for (ChatWord& word : words_of(text)) words.push_back(std::move(word.folded));
  return words;
}

TEST(ChatWords, CaseAndAccentsDoNotMatter) {
  EXPECT_THAT(folded("Zoë's CAFÉ, Straße; Łódź e\xcc\x81t"),
              ElementsAre("zoe", "s", "cafe", "strasse", "lodz", "et"));
  EXPECT_THAT(folded("ΑΘΗΝΑ Москва"), ElementsAre("αθηνα", "москва"));
}

TEST(ChatWords, NumbersStayWhole) {
  EXPECT_THAT(folded("Room 12.50, then 1,000."), ElementsAre("room", "12.50", "then", "1,000"));
}

TEST(ChatWords, ScriptsWithoutSpacesAreTakenByPairs) {
  EXPECT_THAT(folded("東京都 木"), ElementsAre("東京", "京都", "木"));
}

TEST(ChatWords, WhatIsNoUtf8IsReadByByte) { EXPECT_EQ(folded("a\xff\xc3").size(), 1U); }

TEST(ChatWords, ACapitalInsideASentenceIsSeen) {
  const std::vector<ChatWord> words = words_of("Who is Maeve? She left.");
  EXPECT_FALSE(words[0].capital);
  EXPECT_TRUE(words[2].capital);
  EXPECT_FALSE(words[3].capital);
}

TEST(ChatWords, EndingsAreTakenOffAndIrregularFormsKnown) {
  const std::vector<std::pair<std::string, std::string>> alike = {
      {"names", "name"},    {"moving", "moved"}, {"cities", "city"},
      {"bought", "buying"}, {"taken", "takes"},  {"Zimmern", "Zimmer"}};
  for (const auto& [one, other] : alike)
    EXPECT_EQ(stem_of(folded(one)[0]), stem_of(folded(other)[0])) << one;
  EXPECT_EQ(stem_of("bus"), "bus");
  EXPECT_EQ(stem_of("300s"), "300s");
}

TEST(ChatWords, AQuestionHowToDoSomethingAsksForWork) {
  EXPECT_TRUE(asks_for_work(words_of("How do I boil an egg?")));
  EXPECT_TRUE(asks_for_work(words_of("Schreibe mir ein Gedicht.")));
  EXPECT_FALSE(asks_for_work(words_of("How is my cat called?")));
  EXPECT_FALSE(asks_for_work(words_of("Wie heißt meine Katze?")));
  EXPECT_FALSE(asks_for_work({}));
}

TEST(ChatWords, PersonsAndSmallWordsOfBothLanguagesAreKnown) {
  for (const char* word : {"my", "i", "unser", "mich"}) EXPECT_TRUE(is_first_person(word)) << word;
  for (const char* word : {"your", "dein"}) EXPECT_TRUE(is_second_person(word)) << word;
  for (const char* word : {"the", "what", "welche", "und"})
    EXPECT_TRUE(is_small_word(word)) << word;
  EXPECT_FALSE(is_small_word("sister"));
  EXPECT_TRUE(refers_back("mentioned"));
  EXPECT_TRUE(refers_back("vorhin"));
}

}  // namespace
}  // namespace runnel

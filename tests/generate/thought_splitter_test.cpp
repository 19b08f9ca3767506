// SPDX-License-Identifier: Apache-2.0
#include "runtime/generate/thought_splitter.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace runnel {
namespace {

std::pair<std::string, std::string> split(const std::string& text, std::size_t piece,
                                          bool thinks = true) {
  ThoughtSplitter splitter(thinks);
  std::pair<std::string, std::string> out;
  const auto take = [&](const ThoughtSplitter::Text& parts) {
    out.first += parts.thought;
    out.second += parts.answer;
  };
  for (std::size_t i = 0; i < text.size(); i += piece) take(splitter.push(text.substr(i, piece)));
  take(splitter.finish());
  return out;
}

struct Case {
  const char* text;
  const char* thought;
  const char* answer;
};

TEST(ThoughtSplitter, DoesNotDependOnWhereTheTextIsCut) {
  const Case cases[] = {
      {" Hello there.", "", "Hello there."},
      {" <think>\nWell, 1 < 2.\n\n</thin\n</think>\n\nYes.\n", "Well, 1 < 2.\n\n</thin", "Yes.\n"},
      {" <think>\n</think>\nYes.", "", "Yes."},
      {"<think></think>", "", ""},
      {" <think>\nnever closed ", "never closed", ""},
      {" <thinking> is a tag", "", "<thinking> is a tag"},
      {" <thin", "", "<thin"},
      {"The tag <think> comes later", "", "The tag <think> comes later"},
      {"<think>a</think>b<think>c</think>", "a", "b<think>c</think>"},
      {"  \n ", "", ""},
      {"", "", ""}};
  for (const Case& c : cases) {
    for (std::size_t piece = 1; piece < 12; ++piece) {
      auto [thought, answer] = split(c.text, piece);
      while (!thought.empty() && thought.back() == ' ') thought.pop_back();  // of one not closed
      EXPECT_EQ(thought, c.thought) << c.text << " by " << piece;
      EXPECT_EQ(answer, c.answer) << c.text << " by " << piece;
    }
  }
}

TEST(ThoughtSplitter, GoesOnFromAnOpening) {
  const auto after = [](const char* opening, const std::string& text) {
    ThoughtSplitter splitter(true);
    splitter.open(opening);
    const ThoughtSplitter::Text first = splitter.push(text.substr(0, 1));
    const ThoughtSplitter::Text rest = splitter.push(text.substr(1));
    const ThoughtSplitter::Text last = splitter.finish();
    EXPECT_TRUE(splitter.has_thought());
    return std::pair(first.thought + rest.thought + last.thought,
                     first.answer + rest.answer + last.answer);
  };
  using Parts = std::pair<std::string, std::string>;
  EXPECT_EQ(after(" <think", ">\nhm\n</think>\nYes."), Parts("hm", "Yes."));
  EXPECT_EQ(after(" <think", "\nhm</think>Yes."), Parts("hm", "Yes."));
  EXPECT_EQ(after(" <think>\n</think", ">\nYes."), Parts("", "Yes."));
  EXPECT_EQ(after(" <think>\n</think", " Yes."), Parts("", "Yes."));
}

TEST(ThoughtSplitter, GivesTheThoughtAsItComes) {
  ThoughtSplitter splitter(true);
  EXPECT_EQ(splitter.push(" <think>one").thought, "one");
  EXPECT_EQ(splitter.push(" two ").thought, " two");
  EXPECT_TRUE(splitter.has_thought());
}

TEST(ThoughtSplitter, LeavesTextAloneWithoutThoughts) {
  const std::string text = " <think>a</think> b";
  EXPECT_EQ(split(text, 3, false), std::pair(std::string(), text));
}

}  // namespace
}  // namespace runnel

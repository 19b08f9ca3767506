// SPDX-License-Identifier: Apache-2.0
// runnel chat through pipes: each line a message, no decorations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/program.h"
#include "tests/support/chat_model.h"

namespace runnel::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

Outcome chat(const std::string& input, const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments = {"chat", chat_model(), "-t", "1", "-n", "16", "--seed", "3"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return run_program(arguments, input);
}

TEST(Chat, AnswersEachLineOfAPipeWithoutDecorations) {
  const Outcome o = chat("Hello\nAnd now?\n");
  EXPECT_EQ(o.code, 0);
  EXPECT_THAT(o.err, IsEmpty());
  EXPECT_THAT(o.out, Not(HasSubstr("> ")));
  const Outcome first = chat("Hello");  // the last line needs no end
  EXPECT_EQ(first.code, 0);
  EXPECT_THAT(o.out, StartsWith(first.out));
  EXPECT_GT(o.out.size(), first.out.size());
}

TEST(Chat, IgnoresEmptyLines) { EXPECT_EQ(chat("\n  \nHello\n\n").out, chat("Hello\n").out); }

TEST(Chat, ResetForgetsTheConversation) {
  const std::string once = chat("Hello\n").out;
  EXPECT_EQ(chat("Hello\n/reset\nHello\n").out, once + once);
  EXPECT_NE(chat("Hello\nHello\n").out, once + once);
}

TEST(Chat, ALoadedConversationGoesOnAsIfNeverLeft) {
  const std::string file = (scratch() / "chat.snap").string();
  const std::string whole = chat("Hello\nAnd now?\n").out;
  const std::string first = chat("Hello\n/save " + file + "\n").out;
  EXPECT_EQ(first + chat("/load " + file + "\nAnd now?\n").out, whole);
  EXPECT_EQ(chat("Hello\n", {"--save", file}).out + chat("And now?\n", {"--load", file}).out,
            whole);
}

TEST(Chat, TheSystemPromptMatters) {
  EXPECT_NE(chat("Hello\n", {"--system", "Speak like a pirate."}).out, chat("Hello\n").out);
  EXPECT_EQ(chat("Hello\n", {"--system", "Be brief."}).out, chat("Hello\n").out);  // the file's own
}

TEST(Chat, AStyleThatTheVocabularyCannotServeEndsItAtOnce) {
  const auto file = scratch() / "world-for-chatml.gguf";
  write_world_chat_model(file);
  const Outcome o =
      run_program({"chat", file.string(), "--chat-template", "chatml"}, "hi\nand now?\n");
  EXPECT_EQ(o.code, 1);
  EXPECT_THAT(o.out, IsEmpty());
  EXPECT_EQ(o.err, "runnel: chat style chatml: the vocabulary has no special token <|im_start|>\n");
}

TEST(Chat, HelpAndStatsAnswer) {
  const Outcome o = chat("/help\nHello\n/stats\n/quit\nnever read\n");
  EXPECT_EQ(o.code, 0);
  EXPECT_THAT(o.out, HasSubstr("/reset"));
  EXPECT_THAT(o.out, HasSubstr("tokens/s"));
}

TEST(Chat, WrongCommandsAreErrorsAndTheChatGoesOn) {
  const Outcome o = chat("/sing\n/save\n/load /nowhere/a.snap\nHello\n");
  EXPECT_EQ(o.code, 0);
  EXPECT_THAT(o.err, HasSubstr("/sing"));
  EXPECT_THAT(o.err, HasSubstr("/save needs a file"));
  EXPECT_THAT(o.err, HasSubstr("/nowhere/a.snap"));
  EXPECT_EQ(o.out, chat("Hello\n").out);
}

TEST(Chat, ABackslashJoinsLinesAndTwoSlashesSendOne) {
  EXPECT_NE(chat("Hello\\\nthere\n").out, chat("Hello\nthere\n").out);
  const Outcome o = chat("//help\n");
  EXPECT_THAT(o.out, Not(HasSubstr("/reset")));
  EXPECT_GT(o.out.size(), 1U);
}

}  // namespace
}  // namespace runnel::test

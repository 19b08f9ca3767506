// SPDX-License-Identifier: Apache-2.0
// runnel chat --conversation and --pack, runnel conversation, runnel pack.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/cli/program.h"
#include "tests/support/initial_state.h"
#include "tests/support/temporary_directory.h"

namespace runnel::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class ConversationCommand : public ::testing::Test {
 protected:
  Outcome chat(const std::string& input, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = {"chat", chat_model(), "-t", "1",         "-n",
                                          "16",   "--seed",     "3",  "--library", library_};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program(arguments, input);
  }
  Outcome kept(const std::string& input) const { return chat(input, {"--conversation", "plans"}); }
  Outcome conversation(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "conversation");
    arguments.insert(arguments.end(), {"--library", library_});
    return run_program(arguments);
  }

  TemporaryDirectory directory_;
  const std::string library_ = (directory_.path() / "chats.db").string();
};

TEST_F(ConversationCommand, AKeptConversationGoesOnAsIfNeverLeft) {
  const std::string whole = chat("Hello\nAnd now?\n").out;
  const Outcome first = kept("Hello\n");
  EXPECT_THAT(first.err, IsEmpty());
  const Outcome second = kept("And now?\n");
  EXPECT_EQ(first.out + second.out, whole);
}

TEST_F(ConversationCommand, ListRewindBranchAgainAndEdit) {
  kept("Hello\nAnd now?\n");
  const std::string list = kept("/list\n").out;
  EXPECT_THAT(list, HasSubstr("1  you    Hello"));
  EXPECT_THAT(list, HasSubstr("3  you    And now?"));
  EXPECT_THAT(kept("/rewind\n/list\n").out, Not(HasSubstr("And now?")));
  EXPECT_THAT(kept("Something else\n/branch\n").out, HasSubstr("And now?"));
  EXPECT_THAT(kept("/branch 2\n/list\n").out, HasSubstr("And now?"));
  EXPECT_THAT(kept("/rewind 2\n/edit Goodbye\n/list\n").out, HasSubstr("1  you    Goodbye"));
  const Outcome again = kept("/again\n");
  EXPECT_THAT(again.err, IsEmpty());
  EXPECT_GT(again.out.size(), 1U);
  EXPECT_THAT(kept("/search goodbye\n").out, HasSubstr("plans: «Goodbye»"));
  EXPECT_THAT(kept("/rewind 99\n").err, HasSubstr("/list"));
  EXPECT_THAT(kept("/help\n").out, HasSubstr("/branch"));
}

TEST_F(ConversationCommand, ManagesTheLibrary) {
  kept("Unmistakable\n");
  EXPECT_THAT(conversation({"list"}).out, HasSubstr("plans  (2 messages)"));
  EXPECT_THAT(conversation({"export", "plans"}).out, HasSubstr("## You\n\nUnmistakable"));
  const std::string json = conversation({"export", "plans", "--json"}).out;
  EXPECT_EQ(conversation({"rename", "plans", "old"}).code, 0);
  const std::string file = directory_.file("plans.json", json).string();
  EXPECT_EQ(conversation({"import", file}).out, "Imported plans\n");
  EXPECT_THAT(conversation({"search", "unmistak"}).out, HasSubstr("old: "));
  std::filesystem::remove(file);
  for (const char* name : {"old", "plans"}) EXPECT_EQ(conversation({"delete", name}).code, 0);
  EXPECT_THAT(read_text(library_), Not(HasSubstr("nmistakable")));
  const Outcome gone = conversation({"export", "plans"});
  EXPECT_EQ(gone.code, 1);
  EXPECT_THAT(gone.err, HasSubstr("\"plans\""));
}

TEST_F(ConversationCommand, AChatBeginsAfterAPack) {
  const std::string document = directory_.file("tower.txt", "The tower has 199 steps.").string();
  const std::string pack = (directory_.path() / "keeper.rnlpack").string();
  const Outcome made = run_program({"pack", "make", chat_model(), "-t", "1", "--system",
                                    "You keep a lighthouse.", "--document", document, "-o", pack});
  EXPECT_EQ(made.code, 0) << made.err;
  const std::string system = "You keep a lighthouse.\n\nThe tower has 199 steps.";
  const std::string expected = chat("How high?\nReally?\n", {"--system", system}).out;
  EXPECT_EQ(chat("How high?\nReally?\n", {"--pack", pack}).out, expected);
  EXPECT_EQ(chat("How high?\nReally?\n", {"--pack", pack, "--conversation", "k"}).out, expected);
  EXPECT_THAT(run_program({"snapshot", "inspect", pack}).out, HasSubstr("tokens"));
}

TEST_F(ConversationCommand, AKeptConversationBeginsFromAState) {
  const auto model = Model::load(chat_model(), {.device = "cpu", .threads = 1});
  ASSERT_TRUE(model);
  const std::string tuned = (directory_.path() / "tuned.snap").string();
  ASSERT_TRUE(random_initial_state(*model).save(tuned));
  const std::string expected = chat("Hello\n", {"--load", tuned}).out;
  EXPECT_NE(expected, chat("Hello\n").out) << "the case is not one where it matters";
  const Outcome begun = chat("Hello\n/rewind 0\nHello\n", {"--pack", tuned, "--conversation", "k"});
  EXPECT_EQ(begun.out, expected + expected) << begun.err;
  EXPECT_EQ(chat("/reset\nHello\n", {"--conversation", "k"}).out, expected);
}

TEST_F(ConversationCommand, ALaterSnapshotBeginsNoConversation) {
  const std::string later = (directory_.path() / "later.snap").string();
  ASSERT_EQ(chat("Hello\n", {"--save", later}).code, 0);
  const Outcome refused = chat("Hello\n", {"--pack", later, "--conversation", "k"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, HasSubstr("has no messages to begin a conversation with"));
  EXPECT_THAT(chat("Hello\n", {"--pack", later}).err, HasSubstr("--load continues from it"));
}

}  // namespace
}  // namespace runnel::test

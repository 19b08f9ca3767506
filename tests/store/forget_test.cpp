// SPDX-License-Identifier: Apache-2.0
// Deleting: undone until it is final, and then nothing is left in any file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runnel/conversation.h"
#include "tests/store/chat_model.h"
#include "tests/support/temporary_directory.h"

namespace runnel {
namespace {

using test::everything_under;
using test::open_store;
using test::short_answer;
using ::testing::HasSubstr;
using ::testing::Not;

// Long enough to fill pages of its own, and words that only it has.
std::string secret_text(int number) {
  std::string text;
  for (int i = 0; i < 60; ++i) {
    text += "zanzibarlighthouse" + std::to_string(number) + "x" + std::to_string(i) + " ";
  }
  return text;
}

class ForgetTest : public ::testing::Test {
 protected:
  MessageId say(Conversation& chat, const std::string& text) {
    const auto turn = chat.send(text, short_answer());
    EXPECT_TRUE(turn) << turn.error().message;
    return turn ? turn->answer : 0;
  }
  Conversation create(const std::string& name) {
    auto made = Conversation::create(store_, model_, {.name = name});
    if (!made) throw std::runtime_error(made.error().message);
    return std::move(*made);
  }
  // Tokens of the tiny model are bytes: four bytes each in the database and in snapshots.
  bool holds(const std::string& text) const {
    const std::string all = everything_under(directory_.path());
    if (all.find(text) != std::string::npos) return true;
    std::string tokens;
    for (const char c : text) tokens += std::string(1, c) + std::string(3, '\0');
    return all.find(tokens) != std::string::npos;
  }

  test::TemporaryDirectory directory_;
  std::shared_ptr<const Model> model_ = test::chat_model();
  ConversationStore store_ = open_store(directory_.path());
};

TEST_F(ForgetTest, LeavesNothingOfAConversationInAnyFile) {
  Conversation kept = create("kept");
  say(kept, "a harmless harbour");
  {
    Conversation chat = create("secretname77");
    for (int i = 0; i < 3; ++i) say(chat, secret_text(i));
    ASSERT_TRUE(holds("zanzibarlighthouse1x59"));
    ASSERT_TRUE(holds("secretname77"));
    const auto report = store_.forget_conversation(chat.id());
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(report->messages, 6);
    EXPECT_EQ(report->snapshots, 6);
    EXPECT_TRUE(report->log_emptied);
  }
  EXPECT_FALSE(holds("zanzibar"));
  EXPECT_FALSE(holds("lighthouse1x"));
  EXPECT_FALSE(holds("secretname77"));
  EXPECT_TRUE(holds("harbour"));
  EXPECT_EQ(store_.search("harbour")->size(), 1U);
  EXPECT_EQ(store_.usage()->snapshots, 2U);
  EXPECT_TRUE(store_.search("zanzibarlighthouse1x5")->empty());
}

TEST_F(ForgetTest, LeavesNothingAfterAPoint) {
  Conversation chat = create("talk");
  const MessageId first = say(chat, "a harmless harbour");
  const auto before = *chat.session().logits();
  const std::vector<float> logits(before.begin(), before.end());
  say(chat, secret_text(1));
  ASSERT_TRUE(chat.rewind(first));
  say(chat, secret_text(2));  // a second branch
  const auto report = chat.forget_after(first);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->messages, 4);
  EXPECT_FALSE(holds("zanzibar"));
  EXPECT_EQ(chat.head(), first);
  const auto after = *chat.session().logits();
  EXPECT_EQ(std::vector<float>(after.begin(), after.end()), logits);
  EXPECT_EQ(Conversation::open(store_, model_, chat.id())->cost().replayed, 0U);
}

TEST_F(ForgetTest, KeepsASnapshotThatAnotherConversationShares) {
  auto first = Conversation::create(store_, model_, {.name = "1", .system = "Be brief."});
  auto second = Conversation::create(store_, model_, {.name = "2", .system = "Be brief."});
  ASSERT_TRUE(first && second);
  ASSERT_TRUE(store_.forget_conversation(first->id()));
  EXPECT_EQ(store_.usage()->snapshots, 1U);
  EXPECT_EQ(Conversation::open(store_, model_, second->id())->cost().replayed, 0U);
}

TEST_F(ForgetTest, TrashCanBeUndone) {
  Conversation chat = create("talk");
  const MessageId first = say(chat, "Hello");
  const MessageId second = say(chat, "uniquefeather");
  const auto deleted = store_.trash_after(first);
  ASSERT_TRUE(deleted) << deleted.error().message;
  EXPECT_EQ(store_.tree(chat.id())->size(), 2U);
  EXPECT_TRUE(store_.search("uniquefeather")->empty());
  EXPECT_EQ(store_.info(chat.id())->head, first);
  EXPECT_FALSE(chat.rewind(second));
  ASSERT_TRUE(store_.undo(*deleted));
  EXPECT_EQ(store_.info(chat.id())->head, second);
  EXPECT_EQ(store_.search("uniquefeather")->size(), 1U);
  EXPECT_EQ(chat.rewind(second)->replayed, 0U);

  const auto whole = store_.trash_conversation(chat.id());
  ASSERT_TRUE(whole);
  EXPECT_TRUE(store_.list()->empty());
  EXPECT_EQ(store_.list(true)->size(), 1U);
  EXPECT_EQ(*store_.find("talk"), std::nullopt);
  ASSERT_TRUE(store_.undo(*whole));
  EXPECT_EQ(store_.list()->size(), 1U);
  EXPECT_EQ(store_.undo(*whole).error().code, ErrorCode::not_found);
}

TEST_F(ForgetTest, TrashIsFinalWhenItIsForgotten) {
  Conversation chat = create("talk");
  const MessageId first = say(chat, "Hello");
  say(chat, secret_text(1));
  const auto part = store_.trash_after(first);
  ASSERT_TRUE(part);
  Conversation other = create("secretname78");
  say(other, secret_text(2));
  ASSERT_TRUE(store_.trash_conversation(other.id()));
  EXPECT_TRUE(holds("zanzibarlighthouse1x59")) << "in the trash it is still there";

  const auto too_new = store_.forget_trash(std::chrono::hours(1));
  ASSERT_TRUE(too_new);
  EXPECT_EQ(too_new->messages, 0);
  const auto all = store_.forget_trash(std::chrono::milliseconds(0));
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(all->messages, 4);
  EXPECT_FALSE(holds("zanzibar"));
  EXPECT_FALSE(holds("secretname78"));
  EXPECT_FALSE(store_.undo(*part));
  EXPECT_EQ(store_.tree(chat.id())->size(), 2U);
}

TEST_F(ForgetTest, EmptiesTheLogWhileAnotherHandleIsOpen) {
  ConversationStore other = open_store(directory_.path());
  Conversation chat = create("talk");
  say(chat, secret_text(1));
  ASSERT_EQ(other.search("zanzibarlighthouse1x7")->size(), 1U);
  const auto report = store_.forget_conversation(chat.id());
  ASSERT_TRUE(report);
  EXPECT_TRUE(report->log_emptied);
  EXPECT_FALSE(holds("zanzibar"));
  EXPECT_TRUE(other.list()->empty());
}

}  // namespace
}  // namespace runnel

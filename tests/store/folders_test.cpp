// SPDX-License-Identifier: Apache-2.0
// Folders of conversations, and conversations that are said again under another system prompt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runnel/conversation.h"
#include "tests/store/chat_model.h"
#include "tests/support/temporary_directory.h"

namespace runnel {
namespace {

using test::open_store;
using test::short_answer;

class FoldersTest : public ::testing::Test {
 protected:
  ConversationId chat(const std::string& name) {
    const auto added = store_.add({.text = "Hello", .name = name});
    if (!added) throw std::runtime_error(added.error().message);
    return added->conversation;
  }
  FolderId folder(const std::string& name) {
    const auto added = store_.add_folder(name);
    if (!added) throw std::runtime_error(added.error().message);
    return *added;
  }

  test::TemporaryDirectory directory_;
  ConversationStore store_ = open_store(directory_.path());
};

TEST_F(FoldersTest, KeepChatsAndWhetherTheyAreFolded) {
  const ConversationId id = chat("a");
  const FolderId work = folder("work");
  folder("Home");
  ASSERT_TRUE(store_.put_into_folder(id, work));
  ASSERT_TRUE(store_.fold_folder(work, true));
  ASSERT_TRUE(store_.rename_folder(work, "Work"));

  const ConversationStore other = open_store(directory_.path());
  const auto folders = other.folders();
  ASSERT_TRUE(folders) << folders.error().message;
  ASSERT_EQ(folders->size(), 2U);
  EXPECT_EQ((*folders)[0].name, "Home");
  EXPECT_EQ((*folders)[1].name, "Work");
  EXPECT_TRUE((*folders)[1].folded);
  EXPECT_EQ(other.info(id)->folder, work);
}

TEST_F(FoldersTest, GoWithoutTheirChats) {
  const ConversationId id = chat("a");
  const FolderId work = folder("Work");
  ASSERT_TRUE(store_.put_into_folder(id, work));
  ASSERT_TRUE(store_.remove_folder(work));
  EXPECT_TRUE(store_.folders()->empty());
  EXPECT_EQ(store_.info(id)->folder, 0);
  EXPECT_EQ(store_.remove_folder(work).error().code, ErrorCode::not_found);
  EXPECT_EQ(store_.rename_folder(work, "x").error().code, ErrorCode::not_found);
}

TEST_F(FoldersTest, AChatStaysWhereItIsIfTheOtherFolderIsGone) {
  const ConversationId id = chat("a");
  const FolderId work = folder("Work");
  ASSERT_TRUE(store_.put_into_folder(id, work));
  EXPECT_EQ(store_.put_into_folder(id, work + 1).error().code, ErrorCode::not_found);
  EXPECT_EQ(store_.info(id)->folder, work);
  ASSERT_TRUE(store_.put_into_folder(id, 0));
  EXPECT_EQ(store_.info(id)->folder, 0);
  EXPECT_EQ(store_.put_into_folder(999, work).error().code, ErrorCode::not_found);
}

TEST_F(FoldersTest, ADeletedChatComesBackIntoItsFolderAndAForgottenOneLeavesIt) {
  const ConversationId id = chat("a");
  const FolderId work = folder("Work");
  ASSERT_TRUE(store_.put_into_folder(id, work));
  const auto trash = store_.trash_conversation(id);
  ASSERT_TRUE(store_.undo(*trash));
  EXPECT_EQ(store_.info(id)->folder, work);
  ASSERT_TRUE(store_.forget_conversation(id));
  EXPECT_EQ(store_.folders()->size(), 1U);
  EXPECT_TRUE(store_.remove_folder(work));
}

TEST_F(FoldersTest, AreSalvaged) {
  const ConversationId id = chat("a");
  ASSERT_TRUE(store_.put_into_folder(id, folder("Work")));
  const test::TemporaryDirectory other;
  ConversationStore saved = open_store(other.path());
  ASSERT_TRUE(saved.salvage(directory_.path() / "chats.db"));
  ASSERT_EQ(saved.folders()->size(), 1U);
  EXPECT_EQ(saved.list()->at(0).folder, saved.folders()->at(0).id);
}

TEST_F(FoldersTest, AnExportCarriesSettingsIfTheyAreGivenToIt) {
  const ConversationId id = chat("a");
  const auto without = store_.import_json(*store_.export_json(id));
  EXPECT_EQ(*store_.settings(*without), "");
  const auto with = store_.import_json(*store_.export_json(id, "mine"));
  ASSERT_TRUE(with) << with.error().message;
  EXPECT_EQ(*store_.settings(*with), "mine");
}

TEST_F(FoldersTest, AnotherSystemPromptBeginsABranchThatIsReadFromTheStart) {
  const std::shared_ptr<const Model> model = test::chat_model();
  auto made = Conversation::create(store_, model, {.name = "a", .system = "Be brief."});
  ASSERT_TRUE(made) << made.error().message;
  ASSERT_TRUE(made->send("Hello", short_answer()));
  const MessageId old = made->head();
  const std::uint64_t position = made->session().position();

  const auto head = store_.begin_again(made->id(), old, "Be long.");
  ASSERT_TRUE(head) << head.error().message;
  const auto path = store_.path(*head);
  ASSERT_EQ(path->size(), 3U);
  EXPECT_EQ((*path)[0].text, "Be long.");
  EXPECT_EQ((*path)[1].text, "Hello");
  EXPECT_EQ((*path)[2].text, store_.path(old)->back().text);
  EXPECT_EQ((*path)[2].complete, store_.path(old)->back().complete);
  EXPECT_EQ(store_.info(made->id())->head, *head);

  // The other branch is as exact as before: its states are there, nothing of it is read again.
  const auto read = made->rewind(*head);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_GT(read->fed, 0U);
  const auto back = made->rewind(old);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->fed + back->replayed, 0U);
  EXPECT_EQ(made->session().position(), position);
}

TEST_F(FoldersTest, ABranchSaidAgainKeepsWhatIsReadBeforeItsQuestions) {
  const auto first = store_.add({.text = "My sister is Maeve.", .name = "a"});
  ASSERT_TRUE(first) << first.error().message;
  const auto question = store_.add(
      {.conversation = first->conversation, .parent = first->id, .text = "Who is my sister?"});
  ASSERT_TRUE(question) << question.error().message;
  ASSERT_TRUE(*store_.set_quotations(question->id, {{first->id, "My sister is Maeve."}}));
  const auto head = store_.begin_again(first->conversation, question->id, "Be brief.");
  ASSERT_TRUE(head) << head.error().message;
  const auto path = store_.path(*head);
  ASSERT_EQ(path->size(), 3U);
  ASSERT_EQ(path->back().quotations.size(), 1U);
  EXPECT_EQ(path->back().quotations[0].message, (*path)[1].id);
  EXPECT_EQ(path->back().quotations[0].text, "My sister is Maeve.");
  EXPECT_NE((*path)[1].id, first->id);
}

TEST_F(FoldersTest, WithoutAPromptOrMessagesItBeginsAgainAsWell) {
  const auto said = store_.add({.text = "Hello", .name = "a", .system = "Be brief."});
  const auto none = store_.begin_again(said->conversation, said->id, "");
  ASSERT_TRUE(none) << none.error().message;
  ASSERT_EQ(store_.path(*none)->size(), 1U);
  EXPECT_EQ(store_.path(*none)->at(0).parent, 0);
  const auto start = store_.begin_again(said->conversation, 0, "Be long.");
  ASSERT_TRUE(start);
  EXPECT_EQ(store_.path(*start)->at(0).role, "system");
  const auto nothing = store_.begin_again(said->conversation, 0, "");
  ASSERT_TRUE(nothing);
  EXPECT_EQ(store_.info(said->conversation)->head, 0);
  EXPECT_EQ(store_.begin_again(chat("b"), said->id, "x").error().code, ErrorCode::not_found);
}

}  // namespace
}  // namespace runnel

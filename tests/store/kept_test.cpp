// SPDX-License-Identifier: Apache-2.0
// What is typed is kept: messages before they are read, drafts, answers that were cut short; and what a damaged file
// still holds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <span>

#include "runnel/conversation.h"
#include "tests/store/chat_model.h"
#include "tests/support/temporary_directory.h"

namespace runnel {
namespace {

namespace fs = std::filesystem;
using test::open_store;
using test::short_answer;
using ::testing::HasSubstr;

class KeptTest : public ::testing::Test {
 protected:
  MessageInfo add(const NewText& text) {
    auto added = store_.add(text);
    if (!added) throw std::runtime_error(added.error().message);
    return *std::move(added);
  }
  Conversation open(ConversationId id, MessageId message = 0) {
    auto opened = Conversation::open(store_, model_, id, message);
    if (!opened) throw std::runtime_error(opened.error().message);
    return std::move(*opened);
  }
  static std::vector<float> logits(Conversation& chat) {
    const std::span<const float> view = *chat.session().logits();
    return {view.begin(), view.end()};
  }
  std::string text_of(MessageId id) {
    const auto path = store_.path(id);
    return path ? path->back().text : path.error().message;
  }

  test::TemporaryDirectory directory_;
  std::shared_ptr<const Model> model_ = test::chat_model();
  ConversationStore store_ = open_store(directory_.path());
};

TEST_F(KeptTest, AStoredMessageIsThereForOthersBeforeAnyModelReadIt) {
  const MessageInfo said = add({.text = "Hello", .name = "talk", .system = "Be brief."});
  const ConversationStore other = open_store(directory_.path());
  const auto path = other.path(said.id);
  ASSERT_TRUE(path) << path.error().message;
  ASSERT_EQ(path->size(), 2U);
  EXPECT_EQ((*path)[0].role, "system");
  EXPECT_EQ((*path)[1].text, "Hello");
  EXPECT_EQ(other.info(said.conversation)->head, said.id);
  EXPECT_EQ(other.search("hello")->size(), 1U);
}

TEST_F(KeptTest, AStoredMessageIsReadAsOneThatIsSent) {
  auto sent = Conversation::create(store_, model_, {.name = "a", .system = "Be brief."});
  ASSERT_TRUE(sent);
  ASSERT_TRUE(sent->send("Hello", short_answer()));
  ASSERT_TRUE(sent->add_user("More"));

  const MessageInfo first = add({.text = "Hello", .name = "b", .system = "Be brief."});
  Conversation stored = open(first.conversation);
  EXPECT_GT(stored.cost().fed, 0U);
  EXPECT_EQ(stored.cost().replayed, 0U);
  const auto answer = stored.answer(short_answer());
  ASSERT_TRUE(answer) << answer.error().message;
  const MessageInfo second =
      add({.conversation = first.conversation, .parent = answer->answer, .text = "More"});
  const auto cost = stored.rewind(second.id);
  ASSERT_TRUE(cost) << cost.error().message;
  EXPECT_EQ(cost->replayed, 0U);
  EXPECT_GT(cost->fed, 0U);
  EXPECT_EQ(stored.session().position(), sent->session().position());
  EXPECT_EQ(logits(stored), logits(*sent));
}

TEST_F(KeptTest, AStoredMessageCostsNoReadingOfWhatIsBeforeItEvenWithoutSnapshots) {
  ASSERT_TRUE(store_.set_budget(0));
  const MessageInfo first = add({.text = "Hello", .name = "b"});
  Conversation chat = open(first.conversation);
  const auto answer = chat.answer(short_answer());
  ASSERT_TRUE(answer);
  const MessageInfo second =
      add({.conversation = first.conversation, .parent = answer->answer, .text = "More"});
  const auto cost = chat.rewind(second.id);
  ASSERT_TRUE(cost);
  EXPECT_EQ(cost->replayed, 0U);
}

TEST_F(KeptTest, AMessageAfterADeletedOneIsRefused) {
  const MessageInfo first = add({.text = "Hello", .name = "b"});
  ASSERT_TRUE(store_.trash_from(first.id));
  const auto refused =
      store_.add({.conversation = first.conversation, .parent = first.id, .text = "More"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::not_found);
  EXPECT_EQ(store_.add({.role = "system", .text = "x"}).error().code, ErrorCode::invalid_argument);
}

TEST_F(KeptTest, ADraftStaysUntilItsTextIsStored) {
  const MessageInfo first = add({.text = "Hello", .name = "b"});
  ASSERT_TRUE(store_.set_draft(0, "new"));
  ASSERT_TRUE(store_.set_draft(first.conversation, "half a thou"));
  EXPECT_EQ(open_store(directory_.path()).drafts()->size(), 2U);
  add({.conversation = first.conversation,
       .parent = first.id,
       .text = "half a thought",
       .from_draft = true});
  auto left = store_.drafts();
  ASSERT_TRUE(left);
  ASSERT_EQ(left->size(), 1U);
  EXPECT_EQ(left->front().text, "new");
  EXPECT_EQ(left->front().conversation, 0);
  ASSERT_TRUE(store_.set_draft(first.conversation, "secretive"));
  ASSERT_TRUE(store_.forget_conversation(first.conversation));
  EXPECT_EQ(store_.drafts()->size(), 1U);
  EXPECT_THAT(test::everything_under(directory_.path()), Not(HasSubstr("secretive")));
}

TEST_F(KeptTest, WhatIsTypedInPlaceOfAMessageGoesWithIt) {
  const MessageInfo first = add({.text = "Hello"});
  const MessageInfo next =
      add({.conversation = first.conversation, .parent = first.id, .text = "Hi"});
  ASSERT_TRUE(store_.set_draft(-first.id, "Hello there"));
  ASSERT_TRUE(store_.set_draft(-next.id, "confidential"));
  ASSERT_TRUE(store_.forget_after(first.id));
  const auto left = open_store(directory_.path()).drafts();
  ASSERT_TRUE(left);
  ASSERT_EQ(left->size(), 1U);
  EXPECT_EQ(left->front().conversation, -first.id);
  EXPECT_EQ(left->front().text, "Hello there");
  EXPECT_THAT(test::everything_under(directory_.path()), Not(HasSubstr("confidential")));
}

TEST_F(KeptTest, ACutAnswerKeepsItsReasonAndGoesOn) {
  const MessageInfo first = add({.text = "Hello", .name = "b"});
  Conversation chat = open(first.conversation);
  GenerationOptions whole = short_answer();
  whole.ignore_end = true;
  GenerationOptions half = whole;
  half.max_tokens = 5;
  const auto cut = chat.answer(half);
  ASSERT_TRUE(cut);
  EXPECT_EQ(store_.path(cut->answer)->back().cut, CutReason::length);
  const auto more = chat.resume(half);
  ASSERT_TRUE(more) << more.error().message;
  EXPECT_EQ(more->answer, cut->answer);
  EXPECT_EQ(more->result.tokens.size(), 5U);
  EXPECT_EQ(text_of(cut->answer).substr(0, cut->result.text.size()), cut->result.text);
  EXPECT_EQ(store_.tree(first.conversation)->size(), 2U);
  // What is stored opens where the session stands.
  Conversation again = open(first.conversation);
  EXPECT_EQ(again.cost().replayed, 0U);
  EXPECT_EQ(again.session().position(), chat.session().position());
  EXPECT_EQ(logits(again), logits(chat));
}

TEST_F(KeptTest, AStopIsStoredAsTheReason) {
  const MessageInfo first = add({.text = "Hello", .name = "b"});
  Conversation chat = open(first.conversation);
  std::stop_source stop;
  GenerationOptions options = short_answer();
  options.ignore_end = true;
  options.max_tokens = 1000;
  const auto cut = chat.answer(
      options,
      [&stop](std::string_view) {
        stop.request_stop();
        return true;
      },
      stop.get_token());
  ASSERT_TRUE(cut);
  EXPECT_EQ(store_.path(cut->answer)->back().cut, CutReason::stopped);
  EXPECT_EQ(open_store(directory_.path()).path(cut->answer)->back().cut, CutReason::stopped);
}

TEST_F(KeptTest, ACutAnswerThatSomethingFollowsIsContinuedBesideIt) {
  const MessageInfo first = add({.text = "Hello", .name = "b"});
  Conversation chat = open(first.conversation);
  GenerationOptions half = short_answer();
  half.ignore_end = true;
  const auto cut = chat.answer(half);
  ASSERT_TRUE(cut);
  const std::string before = text_of(cut->answer);
  ASSERT_TRUE(chat.add_user("More"));
  ASSERT_TRUE(chat.rewind(cut->answer));
  const auto more = chat.resume(half);
  ASSERT_TRUE(more) << more.error().message;
  EXPECT_NE(more->answer, cut->answer);
  EXPECT_EQ(text_of(cut->answer), before);
  EXPECT_EQ(store_.tree(first.conversation)->size(), 4U);
}

TEST_F(KeptTest, AWholeAnswerIsNotContinued) {
  const MessageInfo first = add({.text = "Hello", .name = "b"});
  const MessageInfo written = add({.conversation = first.conversation,
                                   .parent = first.id,
                                   .role = "assistant",
                                   .text = "By hand"});
  Conversation chat = open(first.conversation);
  EXPECT_EQ(chat.head(), written.id);
  EXPECT_EQ(chat.resume(short_answer()).error().code, ErrorCode::invalid_argument);
  EXPECT_TRUE(chat.send("And?", short_answer()));
}

TEST_F(KeptTest, DeletionsAreListedUndoneAndForgottenOneByOne) {
  const MessageInfo a = add({.text = "first chat", .name = "a"});
  const MessageInfo b = add({.text = "second chat", .name = "b"});
  const MessageInfo after = add({.conversation = b.conversation, .parent = b.id, .text = "tail"});
  ASSERT_TRUE(store_.trash_conversation(a.conversation));
  ASSERT_TRUE(store_.trash_from(after.id));
  auto trash = open_store(directory_.path()).trash();
  ASSERT_TRUE(trash) << trash.error().message;
  ASSERT_EQ(trash->size(), 2U);
  EXPECT_FALSE((*trash)[0].whole);
  EXPECT_EQ((*trash)[0].messages, 1);
  EXPECT_EQ((*trash)[0].excerpt, "tail");
  EXPECT_TRUE((*trash)[1].whole);
  EXPECT_EQ((*trash)[1].name, "a");
  ASSERT_TRUE(store_.undo((*trash)[0].id));
  EXPECT_EQ(store_.info(b.conversation)->head, after.id);
  const auto report = store_.forget_trash_entry((*trash)[1].id);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->messages, 1);
  EXPECT_THAT(test::everything_under(directory_.path()), Not(HasSubstr("first chat")));
  EXPECT_TRUE(store_.trash()->empty());
  EXPECT_EQ(store_.forget_trash_entry((*trash)[1].id).error().code, ErrorCode::not_found);
}

TEST_F(KeptTest, WhatAProgramKeepsForAConversationGoesWithIt) {
  const MessageInfo first = add({.text = "Hello", .name = "a"});
  EXPECT_EQ(*store_.settings(first.conversation), "");
  ASSERT_TRUE(store_.set_settings(first.conversation, "unusual words"));
  ASSERT_TRUE(store_.set_settings(first.conversation, "other unusual words"));
  EXPECT_EQ(*open_store(directory_.path()).settings(first.conversation), "other unusual words");
  EXPECT_EQ(store_.set_settings(999, "x").error().code, ErrorCode::not_found);
  ASSERT_TRUE(store_.forget_conversation(first.conversation));
  EXPECT_EQ(*store_.settings(first.conversation), "");
  EXPECT_THAT(test::everything_under(directory_.path()), testing::Not(HasSubstr("unusual")));
}

TEST_F(KeptTest, ThoughtsAndSettingsAreSalvaged) {
  const auto id = store_.import_json(
      R"({"format":"runnel-conversation","version":1,"name":"a","messages":[
          {"role":"user","text":"Hello"},
          {"role":"assistant","text":"Yes.","thought":"hm","thought_ms":1500}]})");
  ASSERT_TRUE(id) << id.error().message;
  ASSERT_TRUE(store_.set_settings(*id, "mine"));
  const test::TemporaryDirectory other;
  ConversationStore saved = open_store(other.path());
  ASSERT_TRUE(saved.salvage(directory_.path() / "chats.db"));
  const auto all = saved.list();
  ASSERT_EQ(all->size(), 1U);
  EXPECT_EQ(*saved.settings(all->at(0).id), "mine");
  EXPECT_EQ(saved.tree(all->at(0).id)->at(1).thought, "hm");
  EXPECT_EQ(saved.tree(all->at(0).id)->at(1).thought_ms, 1500);
}

TEST_F(KeptTest, WhatWasDeletedIsSalvagedIntoTheTrashWithItsTime) {
  const MessageInfo question = add({.text = "Whole?", .name = "whole"});
  add({.conversation = question.conversation,
       .parent = question.id,
       .role = "assistant",
       .text = "Yes."});
  const MessageInfo stays = add({.text = "Stays.", .name = "half"});
  const MessageInfo goes = add({.conversation = stays.conversation,
                                .parent = stays.id,
                                .role = "assistant",
                                .text = "Goes."});
  add({.conversation = stays.conversation, .parent = goes.id, .text = "Goes with it."});
  ASSERT_TRUE(store_.set_draft(-stays.id, "Stays, in other words."));
  ASSERT_TRUE(store_.trash_from(goes.id));
  ASSERT_TRUE(store_.trash_conversation(question.conversation));
  // 20 of the 30 days are over; another deletion's own row is lost.
  const MessageInfo lost = add({.text = "Its deletion's row is lost.", .name = "lost"});
  const auto third = store_.trash_conversation(lost.conversation);
  const std::int64_t before = now_ms() - std::int64_t{20} * 24 * 3600 * 1000;
  ASSERT_TRUE(impl_of(store_).database.run_with("UPDATE trash SET at = ?1", before));
  ASSERT_TRUE(impl_of(store_).database.run_with("DELETE FROM trash WHERE id = ?1", *third));

  const test::TemporaryDirectory other;
  ConversationStore saved = open_store(other.path());
  const auto report = saved.salvage(directory_.path() / "chats.db");
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->conversations, 1);
  EXPECT_EQ(report->messages, 1);
  const auto alive = saved.list();
  ASSERT_EQ(alive->size(), 1U);
  EXPECT_EQ(alive->at(0).name, "half");
  ASSERT_EQ(saved.tree(alive->at(0).id)->size(), 1U);
  EXPECT_EQ(alive->at(0).head, saved.tree(alive->at(0).id)->at(0).id);
  ASSERT_EQ(saved.drafts()->size(), 1U);
  EXPECT_EQ(saved.drafts()->at(0).conversation, -saved.tree(alive->at(0).id)->at(0).id);
  const auto trash = saved.trash();
  ASSERT_TRUE(trash) << trash.error().message;
  ASSERT_EQ(trash->size(), 3U);
  std::map<std::string, TrashInfo> by_name;
  for (const TrashInfo& entry : *trash) by_name[entry.name] = entry;
  EXPECT_TRUE(by_name["whole"].whole);
  EXPECT_EQ(by_name["whole"].at, before);
  EXPECT_EQ(by_name["whole"].messages, 2);
  EXPECT_FALSE(by_name["half"].whole);
  EXPECT_EQ(by_name["half"].at, before);
  EXPECT_EQ(by_name["half"].messages, 2);
  EXPECT_GT(by_name["lost"].at, now_ms() - 60'000);
  for (const auto& [name, entry] : by_name) ASSERT_TRUE(saved.undo(entry.id)) << name;
  EXPECT_EQ(saved.list()->size(), 3U);
  const auto half = saved.path(saved.info(**saved.find("half"))->head);
  ASSERT_TRUE(half);
  ASSERT_EQ(half->size(), 3U) << "also where the talk stood is known";
  EXPECT_EQ(half->at(2).text, "Goes with it.");
  EXPECT_EQ(saved.tree(**saved.find("whole"))->at(1).text, "Yes.");
}

// Who has a chat open goes on in it, in another window too.
TEST_F(KeptTest, IntoAnEmptyLibraryChatsAndMessagesAreSalvagedWithTheirNumbers) {
  const MessageInfo gone = add({.text = "Goes.", .name = "gone"});
  const MessageInfo question = add({.text = "Stays?", .name = "stays"});
  const MessageInfo answer = add({.conversation = question.conversation,
                                  .parent = question.id,
                                  .role = "assistant",
                                  .text = "Yes."});
  const auto folder = store_.add_folder("things");
  ASSERT_TRUE(folder);
  ASSERT_TRUE(store_.put_into_folder(question.conversation, *folder));
  ASSERT_TRUE(store_.forget_conversation(gone.conversation));
  const test::TemporaryDirectory other;
  ConversationStore saved = open_store(other.path());
  ASSERT_TRUE(saved.salvage(directory_.path() / "chats.db"));
  const auto tree = saved.tree(question.conversation);
  ASSERT_TRUE(tree);
  ASSERT_EQ(tree->size(), 2U);
  EXPECT_EQ(tree->at(0).id, question.id);
  EXPECT_EQ(tree->at(1).id, answer.id);
  EXPECT_EQ(saved.info(question.conversation)->folder, *folder);
  // A second time they are others', so new ones are given.
  ASSERT_TRUE(saved.salvage(directory_.path() / "chats.db"));
  EXPECT_EQ(saved.list()->size(), 2U);
  EXPECT_EQ(saved.tree(question.conversation)->size(), 2U);
}

// The row of the chat is lost, and of its messages only deleted ones can be read: it is no chat without messages.
TEST_F(KeptTest, DeletedMessagesOfALostChatStayInTheTrash) {
  const MessageInfo first = add({.text = "First.", .name = "a"});
  ASSERT_TRUE(store_.trash_from(first.id));
  Database& database = impl_of(store_).database;
  ASSERT_TRUE(database.run("PRAGMA foreign_keys = OFF"));
  ASSERT_TRUE(database.run("DELETE FROM conversations"));
  const test::TemporaryDirectory other;
  ConversationStore saved = open_store(other.path());
  ASSERT_TRUE(saved.salvage(directory_.path() / "chats.db"));
  EXPECT_TRUE(saved.list()->empty());
  ASSERT_EQ(saved.trash()->size(), 1U);
  ASSERT_TRUE(saved.undo(saved.trash()->at(0).id));
  ASSERT_EQ(saved.list()->size(), 1U);
  EXPECT_EQ(saved.tree(saved.list()->at(0).id)->at(0).text, "First.");
}

TEST_F(KeptTest, ItIsSeenThatAnotherConnectionWrote) {
  ConversationStore other = open_store(directory_.path());
  const auto before = store_.version_seen();
  ASSERT_TRUE(before);
  EXPECT_EQ(*store_.version_seen(), *before);
  ASSERT_TRUE(other.set_draft(0, "x"));
  EXPECT_NE(*store_.version_seen(), *before);
}

TEST_F(KeptTest, WhatADamagedFileStillHoldsIsCopied) {
  constexpr int kChats = 40;
  {
    for (int i = 0; i < kChats; ++i) {
      const MessageInfo said = add({.text = "question " + std::to_string(i) + std::string(900, 'x'),
                                    .name = "chat " + std::to_string(i)});
      add({.conversation = said.conversation,
           .parent = said.id,
           .role = "assistant",
           .text = "answer " + std::to_string(i) + std::string(900, 'y')});
    }
    ASSERT_TRUE(store_.set_draft(0, "typed"));
    ASSERT_TRUE(store_.vacuum());
  }
  const fs::path damaged = directory_.path() / "damaged.db";
  fs::copy_file(directory_.path() / "chats.db", damaged);
  const std::uintmax_t bytes = fs::file_size(damaged);
  constexpr std::uintmax_t kPage = 4096;
  ASSERT_GT(bytes, 20 * kPage);
  {
    std::fstream file(damaged, std::ios::in | std::ios::out | std::ios::binary);
    std::mt19937 random(5);
    for (std::uintmax_t page = 8; page < bytes / kPage; page += 6) {
      file.seekp(static_cast<std::streamoff>(page * kPage));
      for (std::uintmax_t i = 0; i < kPage; ++i) file.put(static_cast<char>(random()));
    }
  }
  fs::create_directory(directory_.path() / "new");
  ConversationStore saved = open_store(directory_.path() / "new");
  const auto report = saved.salvage(damaged);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_GT(report->messages, kChats);
  EXPECT_LT(report->messages, 2 * kChats);
  EXPECT_GT(report->unreadable, 0);
  EXPECT_EQ(report->messages + report->unreadable, 2 * kChats);
  EXPECT_FALSE(saved.search("answer")->empty());
  const auto chats = saved.list();
  ASSERT_TRUE(chats);
  for (const ConversationInfo& chat : *chats) {
    if (chat.messages == 0) continue;
    EXPECT_TRUE(Conversation::open(saved, model_, chat.id)) << chat.name;
  }
}

TEST_F(KeptTest, ChatsOfChatGptComeWithTheirBranches) {
  const auto ids = store_.import_chats(R"([{"title": "Rivers", "create_time": 1700000000.5,
    "current_node": "a2", "mapping": {
    "root": {"id": "root", "message": null, "parent": null, "children": ["sys"]},
    "sys": {"message": {"author": {"role": "system"}, "content": {"content_type": "text", "parts": [""]}},
            "parent": "root", "children": ["q"]},
    "q": {"message": {"author": {"role": "user"}, "create_time": 1700000001,
          "content": {"content_type": "text", "parts": ["Name a river."]}}, "parent": "sys", "children": ["a1", "a2"]},
    "a1": {"message": {"author": {"role": "assistant"}, "create_time": 1700000002,
           "content": {"content_type": "text", "parts": ["Rhine"]}}, "parent": "q", "children": []},
    "t": {"message": {"author": {"role": "tool"}, "create_time": 1700000003,
          "content": {"content_type": "text", "parts": ["hidden"]}}, "parent": "q", "children": ["a2"]},
    "a2": {"message": {"author": {"role": "assistant"}, "create_time": 1700000004,
           "content": {"content_type": "text", "parts": ["Elbe", {"asset": 1}]}}, "parent": "t", "children": []}}}])");
  ASSERT_TRUE(ids) << ids.error().message;
  ASSERT_EQ(ids->size(), 1U);
  const auto tree = store_.tree(ids->front());
  ASSERT_TRUE(tree);
  ASSERT_EQ(tree->size(), 3U);
  EXPECT_EQ((*tree)[0].text, "Name a river.");
  EXPECT_EQ((*tree)[1].text, "Rhine");
  EXPECT_EQ((*tree)[2].text, "Elbe");
  EXPECT_EQ((*tree)[2].parent, (*tree)[0].id);
  const auto info = store_.info(ids->front());
  EXPECT_EQ(info->head, (*tree)[2].id);
  EXPECT_EQ(info->name, "Rivers");
  EXPECT_EQ(info->created, 1'700'000'000'500);
}

TEST_F(KeptTest, ChatsOfOpenWebUiComeToo) {
  const auto ids = store_.import_chats(
      R"([{"id": "1", "title": "Tea", "created_at": 1700000000, "chat": {"history":
    {"currentId": "y", "messages": {
      "x": {"id": "x", "parentId": null, "role": "user", "content": "Tea?", "timestamp": 1700000001},
      "y": {"id": "y", "parentId": "x", "role": "assistant", "content": "Yes.", "timestamp": 1700000002}}}}},
    {"id": "2", "title": "More", "chat": {"history": {"currentId": "x", "messages": {
      "x": {"id": "x", "parentId": null, "role": "user", "content": "And?"}}}}}])");
  ASSERT_TRUE(ids) << ids.error().message;
  ASSERT_EQ(ids->size(), 2U);
  EXPECT_EQ(store_.info((*ids)[0])->name, "Tea");
  EXPECT_EQ(store_.tree((*ids)[0])->size(), 2U);
  EXPECT_EQ(store_.tree((*ids)[1])->at(0).text, "And?");
}

TEST_F(KeptTest, AFileOfNoKnownKindStoresNothing) {
  for (const char* text :
       {"[]", "{}", "3", "[1]", R"([{"mapping": {}}])", R"({"mapping": [], "title": 3})",
        R"([{"mapping": {"a": {"message": {"author": 1}, "parent": "a"}}}])", "not json"}) {
    const auto refused = store_.import_chats(text);
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(refused.error().code, ErrorCode::malformed) << text;
  }
  EXPECT_TRUE(store_.list()->empty());
}

TEST_F(KeptTest, AFileThatIsNoLibraryIsNotSalvaged) {
  const fs::path other = directory_.path() / "other.db";
  std::ofstream(other) << "not a database at all, only some words";
  const auto refused = store_.salvage(other);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::malformed);
  EXPECT_THAT(refused.error().message, HasSubstr("other.db"));
}

}  // namespace
}  // namespace runnel

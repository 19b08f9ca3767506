// SPDX-License-Identifier: Apache-2.0
// The store in C against the one in C++: the same conversations, and errors instead of crashes for wrong calls.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runnel/conversation.h"
#include "runnel/runnel_store.h"
#include "runtime/c/support.h"
#include "tests/store/chat_model.h"
#include "tests/support/chat_model.h"
#include "tests/support/temporary_directory.h"

namespace runnel {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

bool append(const char* text, size_t bytes, void* user) {
  static_cast<std::string*>(user)->append(text, bytes);
  return true;
}

class CStore : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string model = (folder_ / "m.gguf").string();
    test::write_chat_model(model);
    ASSERT_EQ(runnel_model_load(model.c_str(), nullptr, &model_, &error_), RUNNEL_OK)
        << error_.message;
    runnel_store_options options;
    RUNNEL_INIT(runnel_store_options, options);
    EXPECT_EQ(runnel_store_open(&options, &store_, &error_), RUNNEL_INVALID_ARGUMENT) << "no file";
    options.file = file_.c_str();
    ASSERT_EQ(runnel_store_open(&options, &store_, &error_), RUNNEL_OK) << error_.message;
    RUNNEL_INIT(runnel_generation_options, generation_);
    generation_.max_tokens = 12;
    generation_.temperature = 1.0F;
    generation_.seed = 7;
    RUNNEL_INIT(runnel_turn_options, options_);
    options_.generation = &generation_;
    RUNNEL_INIT(runnel_turn, turn_);
  }
  void TearDown() override {
    runnel_conversation_free(chat_);
    runnel_store_free(store_);
    runnel_model_free(model_);
  }
  void create() {
    ASSERT_EQ(runnel_conversation_create(store_, model_, "talk", nullptr, &chat_, &error_),
              RUNNEL_OK)
        << error_.message;
  }
  void send(const char* text) {
    ASSERT_EQ(runnel_conversation_send(chat_, text, RUNNEL_NUL, &options_, &turn_, &error_),
              RUNNEL_OK)
        << error_.message;
  }
  // "role: text" of each message on the way to `message`.
  std::vector<std::string> path(runnel_message_id message) {
    std::vector<std::string> all;
    const auto each = [](const runnel_message_info* info, void* user) {
      static_cast<std::vector<std::string>*>(user)->push_back(std::string(info->role) + ": " +
                                                              std::string(info->text, info->bytes));
      return true;
    };
    EXPECT_EQ(runnel_store_path(store_, message, each, &all, &error_), RUNNEL_OK) << error_.message;
    return all;
  }

  test::TemporaryDirectory folder_;
  std::string file_ = (folder_ / "chats.db").string();
  runnel_error error_{};
  runnel_model* model_ = nullptr;
  runnel_store* store_ = nullptr;
  runnel_conversation* chat_ = nullptr;
  runnel_generation_options generation_;
  runnel_turn_options options_;
  runnel_turn turn_;
};

TEST_F(CStore, SendsAndGoesOnAsInCpp) {
  std::string told;
  generation_.on_text = append;
  generation_.user = &told;
  std::vector<runnel_token> tokens(12);
  runnel_generation_result result;
  RUNNEL_INIT(runnel_generation_result, result);
  result.tokens = tokens.data();
  result.token_capacity = tokens.size();
  turn_.result = &result;
  create();
  send("Hello");
  EXPECT_NE(turn_.user, 0);
  EXPECT_NE(turn_.answer, 0);
  EXPECT_FALSE(turn_.stopped);
  EXPECT_GT(turn_.fed, 0U);
  EXPECT_EQ(turn_.generated, result.token_count);
  EXPECT_EQ(runnel_conversation_head(chat_), turn_.answer);
  EXPECT_THAT(path(turn_.answer), ElementsAre("user: Hello", HasSubstr("assistant: " + told)));

  // The same in C++ on a store of its own.
  auto model = Model::load(folder_ / "m.gguf");
  ASSERT_TRUE(model);
  const auto store = ConversationStore::open({.file = folder_ / "other.db"});
  ASSERT_TRUE(store);
  auto chat = Conversation::create(*store, *model, {.name = "talk"});
  ASSERT_TRUE(chat);
  const auto turn = chat->send("Hello", {.sampling = {.temperature = 1.0F, .seed = 7},
                                         .max_tokens = 12,
                                         .answer = *(*model)->answer_form()});
  ASSERT_TRUE(turn);
  EXPECT_EQ(turn->result.text, told);
  EXPECT_EQ(runnel_conversation_position(chat_), chat->session().position());

  // Opened again: nothing is read again, and its state can be had.
  runnel_snapshot* left = nullptr;
  runnel_snapshot* found = nullptr;
  ASSERT_EQ(runnel_conversation_snapshot(chat_, &left, &error_), RUNNEL_OK);
  runnel_conversation_free(chat_);
  ASSERT_EQ(runnel_conversation_open_named(store_, model_, "talk", nullptr, &chat_, &error_),
            RUNNEL_OK)
      << error_.message;
  runnel_token_cost cost;
  RUNNEL_INIT(runnel_token_cost, cost);
  ASSERT_EQ(runnel_conversation_cost(chat_, &cost, &error_), RUNNEL_OK);
  EXPECT_EQ(cost.replayed, 0U);
  ASSERT_EQ(runnel_conversation_snapshot(chat_, &found, &error_), RUNNEL_OK);
  EXPECT_EQ(*left->snapshot.to_bytes(), *found->snapshot.to_bytes());
  runnel_snapshot_free(left);
  runnel_snapshot_free(found);
}

TEST_F(CStore, BranchesByGoingBackAndSaysWhichThereAre) {
  create();
  send("Hello");
  const runnel_message_id first = turn_.answer;
  send("More");
  const runnel_message_id more = turn_.answer;
  ASSERT_EQ(runnel_conversation_rewind(chat_, first, nullptr, nullptr, &error_), RUNNEL_OK);
  EXPECT_EQ(runnel_conversation_head(chat_), first);
  send("Less");
  EXPECT_THAT(path(turn_.answer), ElementsAre("user: Hello", HasSubstr("assistant"), "user: Less",
                                              HasSubstr("assistant")));
  std::vector<runnel_message_id> leaves, forks;
  std::vector<runnel_message_id>* both[] = {&leaves, &forks};
  const auto each = [](const runnel_branch_info* branch, void* user) {
    auto** lists = static_cast<std::vector<runnel_message_id>**>(user);
    lists[0]->push_back(branch->leaf);
    lists[1]->push_back(branch->fork);
    return true;
  };
  const runnel_conversation_id id = runnel_conversation_get_id(chat_);
  ASSERT_EQ(runnel_store_branches(store_, id, each, both, &error_), RUNNEL_OK);
  EXPECT_THAT(leaves, ::testing::UnorderedElementsAre(turn_.answer, more));
  EXPECT_THAT(forks, ElementsAre(first, first));

  const runnel_message_id before = turn_.answer;
  generation_.seed = 8;
  ASSERT_EQ(runnel_conversation_regenerate(chat_, &options_, &turn_, &error_), RUNNEL_OK);
  EXPECT_NE(turn_.answer, before);
  EXPECT_EQ(turn_.user, 0);
  const std::vector<std::string> now = path(turn_.answer);
  ASSERT_EQ(now.size(), 4U);
  EXPECT_EQ(now[2], "user: Less");
}

TEST_F(CStore, ACutAnswerGoesOn) {
  generation_.max_tokens = 4;
  generation_.ignore_end = true;
  create();
  send("Hello");
  const runnel_message_id cut = turn_.answer;
  const std::string before = path(cut).back();
  ASSERT_EQ(runnel_conversation_resume(chat_, &options_, &turn_, &error_), RUNNEL_OK)
      << error_.message;
  EXPECT_EQ(turn_.answer, cut);
  EXPECT_EQ(turn_.generated, 4U);
  EXPECT_EQ(path(cut).back().substr(0, before.size()), before);
  EXPECT_GT(path(cut).back().size(), before.size());
  ASSERT_EQ(runnel_conversation_rewind(chat_, 0, nullptr, nullptr, &error_), RUNNEL_OK);
  EXPECT_EQ(runnel_conversation_resume(chat_, &options_, &turn_, &error_), RUNNEL_INVALID_ARGUMENT)
      << "there is no answer";
}

TEST_F(CStore, ListsSearchesAndStopsAListWhenAsked) {
  create();
  send("a lighthouse keeper");
  runnel_conversation* other = nullptr;
  ASSERT_EQ(runnel_conversation_create(store_, model_, "second", nullptr, &other, &error_),
            RUNNEL_OK);
  runnel_conversation_free(other);
  struct Seen {
    std::vector<std::string> names;
    std::size_t most;
  };
  const auto each = [](const runnel_conversation_info* info, void* user) {
    auto* seen = static_cast<Seen*>(user);
    seen->names.emplace_back(info->name);
    return seen->names.size() < seen->most;
  };
  Seen all{{}, 9}, one{{}, 1};
  ASSERT_EQ(runnel_store_list(store_, false, each, &all, &error_), RUNNEL_OK);
  ASSERT_EQ(runnel_store_list(store_, false, each, &one, &error_), RUNNEL_OK);
  EXPECT_THAT(all.names, ::testing::UnorderedElementsAre("second", "talk"));
  EXPECT_EQ(one.names.size(), 1U);

  std::string hit;
  const auto found = [](const runnel_search_hit* at, void* user) {
    *static_cast<std::string*>(user) = std::string(at->name) + "|" + at->role + "|" + at->excerpt;
    return true;
  };
  ASSERT_EQ(runnel_store_search(store_, "lighthouse", 5, found, &hit, &error_), RUNNEL_OK);
  EXPECT_EQ(hit.substr(0, 10), "talk|user|");
  EXPECT_THAT(hit, HasSubstr("lighthouse"));
  runnel_conversation_id id = -1;
  ASSERT_EQ(runnel_store_find(store_, "nobody", &id, &error_), RUNNEL_OK);
  EXPECT_EQ(id, 0);
  ASSERT_EQ(runnel_store_find(store_, "talk", &id, &error_), RUNNEL_OK);
  EXPECT_EQ(id, runnel_conversation_get_id(chat_));
}

TEST_F(CStore, ForgetsAndUndoes) {
  create();
  send("the first secret");
  const runnel_message_id first = turn_.answer;
  send("the second secret");
  runnel_forget_report report;
  RUNNEL_INIT(runnel_forget_report, report);
  ASSERT_EQ(runnel_conversation_forget_after(chat_, first, nullptr, &report, &error_), RUNNEL_OK)
      << error_.message;
  EXPECT_EQ(report.messages, 2);
  EXPECT_TRUE(report.log_emptied);
  EXPECT_EQ(runnel_conversation_head(chat_), first);
  const std::string everything = test::everything_under(folder_.path());
  EXPECT_EQ(everything.find("second secret"), std::string::npos);
  EXPECT_NE(everything.find("first secret"), std::string::npos);

  const runnel_conversation_id id = runnel_conversation_get_id(chat_);
  runnel_trash_id trash = 0;
  ASSERT_EQ(runnel_store_trash_conversation(store_, id, &trash, &error_), RUNNEL_OK);
  EXPECT_NE(trash, 0);
  ASSERT_EQ(runnel_store_undo(store_, trash, &error_), RUNNEL_OK);
  runnel_conversation_free(std::exchange(chat_, nullptr));
  ASSERT_EQ(runnel_store_forget_conversation(store_, id, nullptr, &error_), RUNNEL_OK);
  EXPECT_EQ(test::everything_under(folder_.path()).find("first secret"), std::string::npos);
  EXPECT_EQ(runnel_store_forget_conversation(store_, id, nullptr, &error_), RUNNEL_NOT_FOUND);
}

TEST_F(CStore, DeletionsAreListedAndForgottenOneByOne) {
  create();
  send("a lighthouse");
  const runnel_conversation_id id = runnel_conversation_get_id(chat_);
  runnel_trash_id trash = 0;
  ASSERT_EQ(runnel_store_trash_conversation(store_, id, &trash, &error_), RUNNEL_OK);
  std::vector<std::string> seen;
  const auto each = [](const runnel_trash_info* info, void* user) {
    static_cast<std::vector<std::string>*>(user)->push_back(
        std::to_string(info->id) + " " + std::to_string(info->messages) + " " +
        (info->whole ? "whole " : "part ") + info->name + ": " + info->excerpt);
    return true;
  };
  ASSERT_EQ(runnel_store_trash(store_, each, &seen, &error_), RUNNEL_OK);
  EXPECT_THAT(seen, ElementsAre(std::to_string(trash) + " 2 whole talk: a lighthouse"));
  runnel_forget_report report;
  RUNNEL_INIT(runnel_forget_report, report);
  ASSERT_EQ(runnel_store_forget_trash_entry(store_, trash, &report, &error_), RUNNEL_OK);
  EXPECT_EQ(report.messages, 2);
  EXPECT_EQ(runnel_store_forget_trash_entry(store_, trash, nullptr, &error_), RUNNEL_NOT_FOUND);
  seen.clear();
  ASSERT_EQ(runnel_store_trash(store_, each, &seen, &error_), RUNNEL_OK);
  EXPECT_THAT(seen, ElementsAre());
}

TEST_F(CStore, TakesChatsOfOtherFilesAndOfADamagedLibrary) {
  const char* const chats = R"([{"title": "Rivers", "current_node": "q", "mapping": {
    "q": {"message": {"author": {"role": "user"}, "content": {"content_type": "text", "parts": ["Name a river."]}},
          "parent": null, "children": []}}}])";
  std::vector<runnel_conversation_id> made;
  const auto each = [](runnel_conversation_id id, void* user) {
    static_cast<std::vector<runnel_conversation_id>*>(user)->push_back(id);
  };
  ASSERT_EQ(runnel_store_import_chats(store_, chats, RUNNEL_NUL, each, &made, &error_), RUNNEL_OK)
      << error_.message;
  ASSERT_EQ(made.size(), 1U);
  EXPECT_EQ(runnel_store_import_chats(store_, "[{}]", RUNNEL_NUL, each, &made, &error_),
            RUNNEL_MALFORMED);

  runnel_store_options options;
  RUNNEL_INIT(runnel_store_options, options);
  const std::string file = (folder_ / "saved.db").string();
  options.file = file.c_str();
  runnel_store* saved = nullptr;
  ASSERT_EQ(runnel_store_open(&options, &saved, &error_), RUNNEL_OK) << error_.message;
  runnel_salvage_report report;
  RUNNEL_INIT(runnel_salvage_report, report);
  ASSERT_EQ(runnel_store_salvage(saved, file_.c_str(), &report, &error_), RUNNEL_OK)
      << error_.message;
  EXPECT_EQ(report.conversations, 1);
  EXPECT_EQ(report.messages, 1);
  EXPECT_EQ(report.unreadable, 0);
  EXPECT_EQ(runnel_store_salvage(saved, "/dev/null", nullptr, &error_), RUNNEL_MALFORMED)
      << error_.message;
  runnel_store_free(saved);
}

TEST_F(CStore, ExportsAndImports) {
  create();
  send("Hello");
  const runnel_conversation_id id = runnel_conversation_get_id(chat_);
  size_t count = 0;
  ASSERT_EQ(runnel_store_export_json(store_, id, nullptr, 0, &count, &error_), RUNNEL_TOO_SMALL);
  std::string json(count, ' ');
  ASSERT_EQ(runnel_store_export_json(store_, id, json.data(), count, &count, &error_), RUNNEL_OK);
  runnel_conversation_id made = 0;
  ASSERT_EQ(runnel_store_import_json(store_, json.data(), json.size(), &made, &error_), RUNNEL_OK)
      << error_.message;
  EXPECT_NE(made, id);
  EXPECT_EQ(runnel_store_import_json(store_, "{", 1, &made, &error_), RUNNEL_MALFORMED);
  runnel_store_usage usage;
  RUNNEL_INIT(runnel_store_usage, usage);
  ASSERT_EQ(runnel_store_get_usage(store_, &usage, &error_), RUNNEL_OK);
  EXPECT_GT(usage.database_bytes, 0U);
}

TEST_F(CStore, BeginsAfterAPack) {
  const char* const documents[] = {"The tower has 199 steps."};
  runnel_snapshot* pack = nullptr;
  ASSERT_EQ(runnel_pack_make(model_, "Be brief.", documents, 1, nullptr, &pack, &error_), RUNNEL_OK)
      << error_.message;
  runnel_conversation_options options;
  RUNNEL_INIT(runnel_conversation_options, options);
  options.pack = pack;
  ASSERT_EQ(runnel_conversation_create(store_, model_, "p", &options, &chat_, &error_), RUNNEL_OK);
  runnel_token_cost cost;
  RUNNEL_INIT(runnel_token_cost, cost);
  ASSERT_EQ(runnel_conversation_cost(chat_, &cost, &error_), RUNNEL_OK);
  EXPECT_EQ(cost.fed + cost.replayed, 0U);
  EXPECT_THAT(path(runnel_conversation_head(chat_)), ElementsAre(HasSubstr("199 steps")));
  runnel_snapshot_free(pack);
}

TEST_F(CStore, RefusesWrongCalls) {
  EXPECT_EQ(runnel_conversation_create(store_, nullptr, "x", nullptr, &chat_, &error_),
            RUNNEL_INVALID_ARGUMENT);
  EXPECT_STREQ(error_.message, "model is null");
  EXPECT_EQ(runnel_conversation_open(store_, model_, 77, 0, nullptr, &chat_, &error_),
            RUNNEL_NOT_FOUND);
  EXPECT_EQ(runnel_store_list(store_, false, nullptr, nullptr, &error_), RUNNEL_INVALID_ARGUMENT);
  EXPECT_EQ(runnel_conversation_send(nullptr, "x", 1, nullptr, nullptr, &error_),
            RUNNEL_INVALID_ARGUMENT);
  create();
  EXPECT_EQ(runnel_conversation_answer(chat_, nullptr, nullptr, &error_), RUNNEL_INVALID_ARGUMENT)
      << "there is nothing to answer";
  EXPECT_EQ(runnel_conversation_send(chat_, "\xff", 1, nullptr, nullptr, &error_),
            RUNNEL_MALFORMED);
  options_.thinking = 5;
  EXPECT_EQ(runnel_conversation_send(chat_, "x", 1, &options_, nullptr, &error_),
            RUNNEL_INVALID_ARGUMENT);
  EXPECT_STREQ(error_.message, "thinking is 5, expected 0, 1 or 2");
  options_.thinking = 0;
  generation_.temperature = -1.0F;
  EXPECT_EQ(runnel_conversation_send(chat_, "x", 1, &options_, nullptr, &error_),
            RUNNEL_INVALID_ARGUMENT);
  EXPECT_THAT(error_.message, HasSubstr("temperature is -1"));
  runnel_turn uninitialised{};
  EXPECT_EQ(runnel_conversation_send(chat_, "x", 1, nullptr, &uninitialised, &error_),
            RUNNEL_INVALID_ARGUMENT);
  EXPECT_EQ(runnel_conversation_head(chat_), 0) << "nothing was said";
  runnel_conversation_free(nullptr);
  runnel_store_free(nullptr);
}

}  // namespace
}  // namespace runnel

// SPDX-License-Identifier: Apache-2.0
// The library of conversations without a model: files, names, search, export, import, budget.
#include "runnel/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "runtime/store/store_impl.h"
#include "tests/store/chat_model.h"
#include "tests/support/temporary_directory.h"

namespace runnel {
namespace {

namespace fs = std::filesystem;
using test::open_store;
using ::testing::HasSubstr;

class StoreTest : public ::testing::Test {
 protected:
  ConversationId conversation(const std::string& name = "talk") {
    return *impl_of(store_).new_conversation(name);
  }
  MessageId say(ConversationId id, MessageId parent, const std::string& role,
                const std::string& text, std::size_t snapshot_bytes = 0) {
    std::string warning;
    NewBoundary boundary{.model = 1, .tokens = {1, 2, 3}, .position = 3, .history = ++counter_};
    boundary.snapshot.assign(snapshot_bytes, std::byte(counter_));
    const auto added = impl_of(store_).add_message(
        {.conversation = id, .parent = parent, .role = role, .text = text}, boundary, warning);
    if (!added) throw std::runtime_error(added.error().message);
    EXPECT_EQ(warning, "");
    return *added;
  }

  test::TemporaryDirectory directory_;
  ConversationStore store_ = open_store(directory_.path());
  std::uint64_t counter_ = 0;
};

TEST_F(StoreTest, MakesItsFilesPrivate) {
  say(conversation(), 0, "user", "Hello", 100);
  for (const auto& entry : fs::recursive_directory_iterator(directory_.path())) {
    const fs::perms others =
        entry.status().permissions() & (fs::perms::group_all | fs::perms::others_all);
    EXPECT_EQ(others, fs::perms::none) << entry.path();
  }
}

TEST_F(StoreTest, MakesTheFoldersOnItsWay) {
  const auto made = ConversationStore::open({.file = directory_.path() / "a" / "b" / "c.db"});
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(fs::status(directory_.path() / "a").permissions(), fs::perms::owner_all);
}

TEST_F(StoreTest, FollowsTheBaseDirectorySpecification) {
  EXPECT_EQ(default_store_file("/data", "/home/ann"), "/data/runnel/conversations.db");
  EXPECT_EQ(default_store_file("", "/home/ann"), "/home/ann/.local/share/runnel/conversations.db");
  EXPECT_EQ(default_store_file("rel", "/home/ann"),
            "/home/ann/.local/share/runnel/conversations.db");
}

TEST_F(StoreTest, RefusesOtherFilesAndLeavesThemAlone) {
  const fs::path text = directory_.file("text.db", std::string(5000, 'x'));
  const auto opened = ConversationStore::open({.file = text});
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::malformed);
  EXPECT_THAT(opened.error().message, HasSubstr("text.db"));
  EXPECT_EQ(test::read_text(text), std::string(5000, 'x'));

  const auto folder = ConversationStore::open({.file = directory_.path()});
  EXPECT_EQ(folder.error().code, ErrorCode::io);
}

TEST_F(StoreTest, RefusesTablesOfALaterVersion) {
  ASSERT_TRUE(impl_of(store_).database.run("PRAGMA user_version = 7"));
  const auto opened = ConversationStore::open({.file = directory_.path() / "chats.db"});
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::unsupported);
  EXPECT_THAT(opened.error().message, HasSubstr("version 7"));
}

TEST_F(StoreTest, TakesOverTablesOfTheFirstVersion) {
  const ConversationId id = conversation();
  say(id, 0, "user", "Hello");
  ASSERT_TRUE(impl_of(store_).database.run(
      "ALTER TABLE messages DROP COLUMN name; DROP TABLE drafts; DROP TABLE thoughts; "
      "DROP TABLE settings; DROP TABLE quotations; DROP TABLE foldered; DROP TABLE folders; "
      "DROP TABLE beginnings; DROP TABLE initial_states; "
      "PRAGMA user_version = 1"));
  auto opened = ConversationStore::open({.file = directory_.path() / "chats.db"});
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_EQ(opened->tree(id)->at(0).text, "Hello");
  EXPECT_TRUE(opened->name_message(opened->tree(id)->at(0).id, "start"));
}

TEST_F(StoreTest, GivesPlacesNamesAndKeepsThemInExports) {
  const ConversationId id = conversation();
  const MessageId hello = say(id, 0, "user", "Hello");
  ASSERT_TRUE(store_.name_message(hello, "the beginning"));
  EXPECT_EQ(store_.tree(id)->at(0).name, "the beginning");
  const auto copy = store_.import_json(*store_.export_json(id));
  ASSERT_TRUE(copy);
  EXPECT_EQ(store_.tree(*copy)->at(0).name, "the beginning");
  EXPECT_EQ(store_.name_message(999, "x").error().code, ErrorCode::not_found);
}

TEST_F(StoreTest, MovesTheHeadOnlyWithinTheConversation) {
  const ConversationId id = conversation();
  const MessageId hello = say(id, 0, "user", "Hello");
  const MessageId answer = say(id, hello, "assistant", "Hi");
  ASSERT_TRUE(store_.set_head(id, hello));
  EXPECT_EQ(store_.info(id)->head, hello);
  const MessageId stranger = say(conversation("other"), 0, "user", "Hm");
  EXPECT_EQ(store_.set_head(id, stranger).error().code, ErrorCode::not_found);
  EXPECT_TRUE(store_.set_head(id, answer));
}

TEST_F(StoreTest, TrashesAMessageWithWhatFollowsAndLeavesItsSiblings) {
  const ConversationId id = conversation();
  const MessageId hello = say(id, 0, "user", "Hello");
  const MessageId one = say(id, hello, "assistant", "One");
  say(id, one, "user", "And?");
  const MessageId two = say(id, hello, "assistant", "Two");
  ASSERT_TRUE(store_.set_head(id, one));
  const auto deleted = store_.trash_from(one);
  ASSERT_TRUE(deleted) << deleted.error().message;
  EXPECT_EQ(store_.tree(id)->size(), 2U);
  EXPECT_EQ(store_.tree(id)->back().id, two);
  EXPECT_EQ(store_.info(id)->head, hello);
  ASSERT_TRUE(store_.undo(*deleted));
  EXPECT_EQ(store_.tree(id)->size(), 4U);
  EXPECT_EQ(store_.info(id)->head, one);
}

TEST_F(StoreTest, ListsRenamesPinsAndFinds) {
  const ConversationId first = conversation("first");
  const ConversationId second = conversation("second");
  say(first, 0, "user", "Hello");
  ASSERT_TRUE(store_.rename(second, "plans"));
  ASSERT_TRUE(store_.pin(second, true));
  const auto list = store_.list();
  ASSERT_EQ(list->size(), 2U);
  EXPECT_EQ(store_.info(first)->messages, 1);
  EXPECT_TRUE(store_.info(second)->pinned);
  EXPECT_EQ(*store_.find("plans"), second);
  EXPECT_EQ(*store_.find("second"), std::nullopt);
  EXPECT_EQ(store_.rename(99, "x").error().code, ErrorCode::not_found);
}

TEST_F(StoreTest, SearchFindsWordsWithoutCaseOrAccents) {
  const ConversationId id = conversation();
  const MessageId hit = say(id, 0, "user", "Das schöne Café am Hafen, wo die Lichter brennen");
  say(id, hit, "assistant", "Etwas anderes");
  for (const char* query : {"cafe", "SCHONE hafen", "licht", "Café am"}) {
    const auto found = store_.search(query);
    ASSERT_TRUE(found) << found.error().message;
    ASSERT_EQ(found->size(), 1U) << query;
    EXPECT_EQ((*found)[0].message, hit);
    EXPECT_EQ((*found)[0].name, "talk");
    EXPECT_THAT((*found)[0].excerpt, HasSubstr("«"));
  }
  EXPECT_TRUE(store_.search("nirgends")->empty());
  EXPECT_TRUE(store_.search("  ")->empty());
}

TEST_F(StoreTest, SearchFindsPartsAndScriptsWithoutSpaces) {
  const ConversationId id = conversation();
  say(id, 0, "user", "今日は灯台へ行きました");
  say(id, 0, "user", "see file_v2.tar.gz");
  EXPECT_EQ(store_.search("灯台")->size(), 1U);
  EXPECT_THAT((*store_.search("灯台"))[0].excerpt, HasSubstr("«灯台»"));
  EXPECT_EQ(store_.search("v2.tar")->size(), 1U);
}

TEST_F(StoreTest, SearchTakesAnyText) {
  say(conversation(), 0, "user", "Hello");
  for (const char* query : {"\"", "AND", "NEAR(", "a*b OR", "text:hello", "'; DROP TABLE messages",
                            "\xff\xfe", "-", "^hello", "(((", "{a b}: c"}) {
    EXPECT_TRUE(store_.search(query)) << query;
  }
}

TEST_F(StoreTest, DropsTheLeastRecentlyUsedSnapshotsOverBudget) {
  const ConversationId id = conversation();
  MessageId last = 0;
  std::vector<MessageId> all;
  for (int i = 0; i < 10; ++i) all.push_back(last = say(id, last, "user", "m", 1000));
  EXPECT_EQ(store_.usage()->snapshots, 10U);
  // The first was used last; it is no snapshot that can be read, so only its mark counts here.
  ASSERT_TRUE(impl_of(store_).database.run(
      "UPDATE snapshots SET used = 1000 WHERE hash = (SELECT snapshot FROM boundaries WHERE "
      "message = (SELECT min(message) FROM boundaries))"));
  ASSERT_TRUE(store_.set_budget(4000));
  const auto usage = store_.usage();
  EXPECT_EQ(usage->snapshots, 4U);
  EXPECT_EQ(usage->snapshot_bytes, 4000U);
  EXPECT_EQ(usage->pinned_bytes, 1000U);
  std::vector<bool> left;
  const auto tree = store_.tree(id);
  for (const MessageInfo& message : *tree) left.push_back(message.has_snapshot);
  EXPECT_EQ(left,
            (std::vector<bool>{true, false, false, false, false, false, false, true, true, true}));
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_.path() / "chats.db.snapshots"), {}), 4);
}

TEST_F(StoreTest, NeverDropsPinnedSnapshots) {
  ASSERT_TRUE(store_.set_budget(0));
  const ConversationId pinned = conversation("pinned");
  ASSERT_TRUE(store_.pin(pinned, true));
  MessageId last = 0;
  for (int i = 0; i < 3; ++i) last = say(pinned, last, "user", "m", 1000);
  const ConversationId other = conversation("other");
  const MessageId marked = say(other, 0, "user", "m", 1000);
  ASSERT_TRUE(store_.pin_message(marked, true));
  last = marked;
  for (int i = 0; i < 3; ++i) last = say(other, last, "user", "m", 1000);
  EXPECT_EQ(store_.usage()->snapshots, 3U + 1U + 1U);
}

TEST_F(StoreTest, SweepsFilesThatACrashLeft) {
  say(conversation(), 0, "user", "m", 100);
  const fs::path folder = directory_.path() / "chats.db.snapshots";
  std::ofstream(folder / "00000000000000000000000000000000.snapshot") << "orphan";
  std::ofstream(folder / ".runnel-1.tmp") << "half";
  std::ofstream(folder / "notes.txt") << "not ours";
  open_store(directory_.path());
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 2);
  EXPECT_TRUE(fs::exists(folder / "notes.txt"));
}

TEST_F(StoreTest, ExportsMarkdown) {
  const ConversationId id = conversation("Garden");
  const MessageId user = say(id, 0, "user", "What **shall** we plant?\n\n```\ncode\n```");
  say(id, user, "assistant", "Beans.");
  const auto text = store_.export_markdown(id);
  ASSERT_TRUE(text);
  EXPECT_THAT(*text, ::testing::StartsWith("# Garden\n\n20"));
  EXPECT_THAT(
      *text,
      HasSubstr(
          "\n## You\n\nWhat **shall** we plant?\n\n```\ncode\n```\n\n## Assistant\n\nBeans.\n"));
}

TEST_F(StoreTest, ImportsWhatItExported) {
  const ConversationId id = conversation("Garden \"1\"");
  const MessageId system = say(id, 0, "system", "Be brief.");
  const MessageId user = say(id, system, "user", "Ünïcode\n\t\x01");
  const MessageId left = say(id, user, "assistant", "Left");
  say(id, user, "assistant", "Right");
  ASSERT_TRUE(impl_of(store_).set_head(id, left));
  const auto json = store_.export_json(id);
  ASSERT_TRUE(json);
  const auto copy = store_.import_json(*json);
  ASSERT_TRUE(copy) << copy.error().message;
  EXPECT_EQ(*store_.export_json(*copy), *json);
  EXPECT_EQ(store_.branches(*copy)->size(), 2U);
}

TEST_F(StoreTest, RefusesWhatIsNoExport) {
  const std::string head = R"({"format":"runnel-conversation","version":1,"messages":)";
  for (const std::string& bad : {
           std::string(""),
           std::string("[1]"),
           std::string("{}"),
           std::string(R"({"format":"runnel-conversation","version":2,"messages":[]})"),
           head + "3}",
           head + "[3]}",
           head + R"([{"role":"user"}]})",
           head + R"([{"role":"boss","text":""}]})",
           head + R"([{"role":"user","text":"","parent":1}]})",
           head + R"([{"role":"user","text":"","parent":-1}]})",
           head + R"([{"role":"user","text":""},{"role":"system","text":"","parent":1}]})",
           head + R"([],"head":1})",
           std::string(100000, '['),
       }) {
    const auto imported = store_.import_json(bad);
    EXPECT_FALSE(imported) << bad.substr(0, 100);
  }
  EXPECT_TRUE(store_.list()->empty());
}

}  // namespace
}  // namespace runnel

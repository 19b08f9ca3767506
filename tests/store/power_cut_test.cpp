// SPDX-License-Identifier: Apache-2.0
// What a power cut leaves of a library: after every single write, with everything gone that was not
// synced, or some of it, it opens with all that was saved and nothing that was forgotten.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "runnel/conversation.h"
#include "tests/store/chat_model.h"
#include "tests/store/recorded_disk.h"
#include "tests/support/temporary_directory.h"

namespace runnel {
namespace {

namespace fs = std::filesystem;
using test::DiskOperation;
using test::open_store;

constexpr std::uint64_t kForgot = 1'000'000;  // a mark; others are ids of saved messages
constexpr const char* kSecret = "message at 10";

// Ten messages, the last of which are then forgotten, others; the library is closed and opened.
void use_a_library(const fs::path& folder, const test::RecordedDisk& disk,
                   const std::vector<NewBoundary>& all) {
  std::string warning;
  MessageId parent = 0;
  std::vector<MessageId> ids;
  ConversationId id = 0;
  const auto save = [&](ConversationStore& store, const NewBoundary& boundary) {
    const auto added = test::add_message(store, id, parent, boundary, warning);
    ASSERT_TRUE(added) << added.error().message;
    parent = *added;
    ids.push_back(parent);
    disk.mark(static_cast<std::uint64_t>(parent));
  };
  {
    ConversationStore store = open_store(folder);
    impl_of(store).cache.use(&disk);
    id = *impl_of(store).new_conversation("talk");
    for (const NewBoundary& boundary : all) save(store, boundary);
    const auto forgotten = store.forget_after(ids[5]);
    ASSERT_TRUE(forgotten) << forgotten.error().message;
    ASSERT_TRUE(forgotten->log_emptied);
    disk.mark(kForgot);
    parent = ids[5];
    save(store, all[6]);
  }
  ConversationStore store = open_store(folder);
  impl_of(store).cache.use(&disk);
  save(store, all[7]);
  save(store, all[8]);
}

TEST(StorePowerCut, EveryPrefixOfTheWritesReopensWithWhatWasSaved) {
  const std::vector<NewBoundary> all = test::boundaries(10);
  const auto model = test::chat_model();
  const test::TemporaryDirectory directory;
  test::RecordedDisk disk(directory.path());
  use_a_library(directory.path(), disk, all);
  disk.freeze();

  test::UnsyncedDisk left;
  test::Random dice(3);
  MessageId saved = 0;
  bool forgot = false;
  int reopened = 0;
  for (const DiskOperation& operation : disk.log()) {
    left.apply(operation);
    const bool mark = operation.kind == DiskOperation::Kind::mark;
    if (mark && operation.offset == kForgot) {
      forgot = true;
    } else if (mark) {
      saved = static_cast<MessageId>(operation.offset);
    }
    for (test::Random* some : {static_cast<test::Random*>(nullptr), &dice}) {
      const test::TemporaryDirectory after;
      for (const auto& [name, contents] : left.after_power_cut(some)) {
        fs::create_directories((after / name).parent_path());
        after.file(name, contents);
        if (forgot) {
          ASSERT_EQ(contents.find(kSecret), std::string::npos) << "it came back";
        }
      }
      ++reopened;
      const auto store = ConversationStore::open({.file = after / "chats.db"});
      ASSERT_TRUE(store) << "after write " << reopened / 2 << ": " << store.error().message;
      const auto id = store->find("talk");
      ASSERT_TRUE(id) << id.error().message;
      if (!*id) {
        ASSERT_EQ(saved, 0);
        continue;
      }
      const MessageId head = store->info(**id)->head;
      if (forgot && saved <= 10) {
        ASSERT_GE(head, 6);  // where the forgotten ones followed
      } else if (!forgot && head < saved) {
        // The forgetting that was under way may have come through.
        ASSERT_EQ(saved, 10);
        ASSERT_EQ(head, 6);
      } else {
        ASSERT_GE(head, saved);
      }
      if (head == 0) continue;
      const auto path = impl_of(*store).read_path(head, all[0].model);
      ASSERT_TRUE(path) << path.error().message;
      for (const PathStep& step : *path) {
        ASSERT_TRUE(step.has_tokens);
        ASSERT_EQ(step.message.text, "message at " + std::to_string(step.position));
      }
      // A snapshot is whole or not believed.
      if (const std::string& name = path->back().snapshot; !name.empty()) {
        const auto snapshot = impl_of(*store).read_snapshot(name);
        if (snapshot) {
          ASSERT_EQ(snapshot->position(), path->back().position);
        }
      }
      if (!mark) continue;
      auto check = impl_of(*store).database.prepare("PRAGMA integrity_check");
      ASSERT_TRUE(check->step());
      ASSERT_EQ(check->text(0), "ok");
      const auto chat = Conversation::open(*store, model, **id);
      ASSERT_TRUE(chat) << chat.error().message;
      ASSERT_EQ(chat->head(), head);
    }
  }
  EXPECT_GT(reopened, 500);
  EXPECT_EQ(saved, 13);
}

TEST(StorePowerCut, TheSimulatedDiskLosesWhatSqliteDoesNotSync) {
  const std::vector<NewBoundary> all = test::boundaries(2);
  const test::TemporaryDirectory directory;
  test::RecordedDisk disk(directory.path());
  {
    ConversationStore store = open_store(directory.path());
    const auto id = impl_of(store).new_conversation("talk");
    ASSERT_TRUE(impl_of(store).database.run("PRAGMA synchronous = OFF"));
    std::string warning;
    ASSERT_TRUE(test::add_message(store, *id, 0, all[0], warning));
    disk.mark(1);
  }
  disk.freeze();
  test::UnsyncedDisk left;
  for (const DiskOperation& operation : disk.log()) {
    left.apply(operation);
    if (operation.kind == DiskOperation::Kind::mark) break;
  }
  const test::TemporaryDirectory after;
  for (const auto& [name, contents] : left.after_power_cut()) {
    fs::create_directories((after / name).parent_path());
    after.file(name, contents);
  }
  const ConversationStore store = open_store(after.path());
  const auto id = store.find("talk");
  ASSERT_TRUE(id && *id);
  EXPECT_EQ(store.info(**id)->head, 0) << "the message was never synced";
}

}  // namespace
}  // namespace runnel

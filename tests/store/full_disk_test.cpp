// SPDX-License-Identifier: Apache-2.0
// Libraries on disks that are full to the last byte, or for reading only.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/store/store_impl.h"
#include "tests/store/chat_model.h"
#include "tests/support/small_disk.h"

namespace runnel {
namespace {

using test::everything_under;
using test::SmallDisk;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::size_t kDiskBytes = 16 * 1024 * 1024;

class FullDisk : public ::testing::Test {
 protected:
  void SetUp() override { RUNNEL_NEEDS_DISK(disk_); }

  Result<ConversationStore> open() { return ConversationStore::open({.file = file_}); }

  // Conversations of `messages` with words of their own and states of `state_bytes`.
  void talk(ConversationStore& store, const std::string& name, int messages,
            std::size_t state_bytes) {
    const auto id = impl_of(store).new_conversation(name);
    ASSERT_TRUE(id) << id.error().message;
    MessageId last = 0;
    for (int i = 0; i < messages; ++i) {
      NewBoundary boundary{.model = 1, .tokens = {1, 2}, .position = 2, .history = ++counter_};
      boundary.snapshot.resize(state_bytes);
      for (std::byte& byte : boundary.snapshot)
        byte = std::byte((noise_ = noise_ * 1664525 + 1013904223) >> 24);
      std::string text;
      for (int word = 0; word < 200; ++word)
        text += name + "word" + std::to_string(i * 1000 + word) + " ";
      std::string warning;
      const auto added = impl_of(store).add_message(
          {.conversation = *id, .parent = last, .role = "user", .text = text}, boundary, warning);
      ASSERT_TRUE(added) << added.error().message;
      ASSERT_EQ(warning, "");
      last = *added;
    }
  }

  // What a full disk must not keep anybody from.
  static void expect_readable(const ConversationStore& store, const std::string& name) {
    const auto list = store.list();
    ASSERT_TRUE(list) << list.error().message;
    EXPECT_FALSE(list->empty());
    const auto hits = store.search(name + "word199");
    ASSERT_TRUE(hits) << hits.error().message;
    EXPECT_EQ(hits->size(), 1U);
    const auto id = store.find(name);
    ASSERT_TRUE(id && *id);
    const auto text = store.export_markdown(**id);
    ASSERT_TRUE(text) << text.error().message;
    EXPECT_THAT(*text, HasSubstr(name + "word199 "));
    EXPECT_TRUE(store.export_json(**id));
  }

  void expect_forgotten(ConversationStore& store, const std::string& name) {
    const auto id = store.find(name);
    ASSERT_TRUE(id && *id);
    const auto report = store.forget_conversation(**id);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_TRUE(report->log_emptied);
    EXPECT_THAT(everything_under(disk_.path()), Not(HasSubstr(name + "word")));
    EXPECT_TRUE(store.search(name + "word199")->empty());
  }

  SmallDisk disk_{kDiskBytes};
  std::filesystem::path file_ = disk_.path() / "chats.db";
  std::uint64_t counter_ = 0;
  unsigned noise_ = 1;
};

TEST_F(FullDisk, IsReadAndDeletedFromByWhoHasItOpen) {
  auto store = open();
  ASSERT_TRUE(store) << store.error().message;
  talk(*store, "harbour", 20, 20'000);
  talk(*store, "secret", 20, 20'000);
  disk_.fill_all_but(0);
  ASSERT_EQ(disk_.free_bytes(), 0U);
  expect_readable(*store, "secret");
  expect_forgotten(*store, "secret");
  expect_readable(*store, "harbour");
}

TEST_F(FullDisk, IsOpenedReadAndDeletedFrom) {
  {
    auto store = open();
    ASSERT_TRUE(store) << store.error().message;
    talk(*store, "harbour", 20, 20'000);
    talk(*store, "secret", 20, 20'000);
  }
  for (const auto& entry : std::filesystem::directory_iterator(disk_.path() / "chats.db.snapshots"))
    std::filesystem::remove(entry);  // their room is not needed
  for (int i = 0; i < 3; ++i) {      // opening it does not use up what deleting needs
    disk_.fill_all_but(0);
    auto store = open();
    ASSERT_TRUE(store) << store.error().message;
    disk_.fill_all_but(0);
    expect_readable(*store, "harbour");
  }
  auto store = open();
  ASSERT_TRUE(store) << store.error().message;
  expect_readable(*store, "secret");
  expect_forgotten(*store, "secret");
  expect_readable(*store, "harbour");
}

// The reserve alone is enough: there is no snapshot whose room could be used.
TEST_F(FullDisk, DeletesEverythingOneByOneWithoutAnySnapshot) {
  auto store = open();
  ASSERT_TRUE(store) << store.error().message;
  for (const char* name : {"alpha", "beta", "gamma", "delta"}) talk(*store, name, 40, 0);
  ASSERT_TRUE(impl_of(*store).empty_log());
  impl_of(*store).keep_reserve();
  for (const char* name : {"alpha", "beta", "gamma", "delta"}) {
    disk_.fill_all_but(0);
    ASSERT_EQ(disk_.free_bytes(), 0U);
    expect_forgotten(*store, name);
  }
  EXPECT_TRUE(store->list()->empty());
}

// A library that was full before it had a reserve: snapshots make room.
TEST_F(FullDisk, SnapshotsMakeRoomWhereThereIsNoReserve) {
  {
    auto store = open();
    ASSERT_TRUE(store) << store.error().message;
    talk(*store, "harbour", 20, 40'000);
    talk(*store, "secret", 20, 40'000);
  }
  auto store = open();
  ASSERT_TRUE(store) << store.error().message;
  ASSERT_TRUE(impl_of(*store).reserve.release());
  disk_.fill_all_but(0);
  const std::uint64_t before = store->usage()->snapshots;
  expect_forgotten(*store, "secret");
  expect_readable(*store, "harbour");
  EXPECT_LT(store->usage()->snapshots, before - 20) << "others gave theirs, too";
  EXPECT_GT(store->usage()->snapshots, 0U) << "but not all";
}

TEST_F(FullDisk, TrashTakesAndGivesUp) {
  auto store = open();
  ASSERT_TRUE(store) << store.error().message;
  talk(*store, "secret", 20, 0);
  disk_.fill_all_but(0);
  const auto id = store->find("secret");
  ASSERT_TRUE(store->trash_conversation(**id));
  EXPECT_TRUE(store->list()->empty());
  disk_.fill_all_but(0);
  const auto report = store->forget_trash(std::chrono::milliseconds(0));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_THAT(everything_under(disk_.path()), Not(HasSubstr("secretword")));
}

TEST_F(FullDisk, WhatCannotBeWrittenSaysWhereAndWhy) {
  auto store = open();
  ASSERT_TRUE(store) << store.error().message;
  talk(*store, "harbour", 3, 1000);
  disk_.fill_all_but(0);
  const auto id = store->find("harbour");
  std::string warning;
  const NewBoundary boundary{.model = 1, .tokens = {1}, .position = 1, .history = 99};
  const auto added = impl_of(*store).add_message(
      {.conversation = **id, .role = "user", .text = std::string(100'000, 'x')}, boundary, warning);
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code, ErrorCode::io);
  EXPECT_THAT(added.error().message, HasSubstr(file_.native()));
  EXPECT_THAT(added.error().message, HasSubstr("the disk is full: No space left on device"));
  EXPECT_EQ(store->tree(**id)->size(), 3U) << "what was there stays";
  disk_.empty();
  EXPECT_TRUE(impl_of(*store).add_message({.conversation = **id, .role = "user", .text = "again"},
                                          boundary, warning));
}

// Chatting on must not use up what is kept for deleting.
TEST_F(FullDisk, TheReserveIsForDeletingAlone) {
  auto store = open();
  ASSERT_TRUE(store) << store.error().message;
  talk(*store, "harbour", 3, 0);
  disk_.fill_all_but(0);
  const auto id = store->find("harbour");
  std::string warning;
  const NewBoundary boundary{.model = 1, .tokens = {1}, .position = 1, .history = 99};
  for (int i = 0; i < 5; ++i) {
    EXPECT_FALSE(impl_of(*store).add_message(
        {.conversation = **id, .role = "user", .text = std::string(100'000, 'x')}, boundary,
        warning));
  }
  struct stat info = {};
  ASSERT_EQ(::stat((file_.native() + ".reserve").c_str(), &info), 0);
  EXPECT_GE(static_cast<std::uint64_t>(info.st_blocks) * 512, store->usage()->database_bytes)
      << "real blocks, not a promise";
  EXPECT_EQ(info.st_mode & 0777, 0600U);
}

TEST_F(FullDisk, OneForReadingOnlyIsOpenedForReading) {
  {
    auto store = open();
    ASSERT_TRUE(store) << store.error().message;
    EXPECT_FALSE(store->read_only());
    talk(*store, "harbour", 5, 1000);
  }
  ASSERT_TRUE(disk_.make_read_only());
  auto store = open();
  ASSERT_TRUE(store) << store.error().message;
  EXPECT_TRUE(store->read_only());
  expect_readable(*store, "harbour");
  const auto id = store->find("harbour");
  for (const Status& refused :
       {store->rename(**id, "x"), store->set_budget(0), store->pin(**id, true)}) {
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::io);
    EXPECT_THAT(refused.error().message, HasSubstr(file_.native()));
    EXPECT_THAT(refused.error().message, HasSubstr("for reading only"));
  }
  const auto forgotten = store->forget_conversation(**id);
  ASSERT_FALSE(forgotten);
  EXPECT_THAT(forgotten.error().message, HasSubstr("for reading only"));
}

TEST_F(FullDisk, AnOlderOneForReadingOnlyIsOpenedForReading) {
  {
    auto store = open();
    ASSERT_TRUE(store) << store.error().message;
    talk(*store, "harbour", 5, 1000);
    ASSERT_TRUE(impl_of(*store).database.run(
        "DROP TABLE thoughts; DROP TABLE settings; DROP TABLE quotations; DROP TABLE foldered; "
        "DROP TABLE folders; DROP TABLE beginnings; "
        "PRAGMA user_version = 3"));
  }
  ASSERT_TRUE(disk_.make_read_only());
  auto store = open();
  ASSERT_TRUE(store) << store.error().message;
  expect_readable(*store, "harbour");
  EXPECT_EQ(*store->settings(**store->find("harbour")), "");
  EXPECT_TRUE(store->folders()->empty());
}

// A process was killed and left its log; what it said is there nevertheless.
TEST_F(FullDisk, ALogThatWasLeftIsReadWhereNothingCanBeWritten) {
  {
    auto store = open();
    ASSERT_TRUE(store) << store.error().message;
    talk(*store, "harbour", 5, 0);
    for (const char* suffix : {"", "-wal", "-shm"})
      std::filesystem::copy_file(file_.native() + suffix,
                                 disk_.path() / ("left.db" + std::string(suffix)));
  }
  file_ = disk_.path() / "left.db";
  ASSERT_GT(std::filesystem::file_size(file_.native() + "-wal"), 0U);
  ASSERT_TRUE(disk_.make_read_only());
  auto store = open();
  ASSERT_TRUE(store) << store.error().message;
  expect_readable(*store, "harbour");
}

TEST_F(FullDisk, NothingIsMadeOnADiskForReadingOnly) {
  ASSERT_TRUE(disk_.make_read_only());
  const auto store = open();
  ASSERT_FALSE(store);
  EXPECT_THAT(store.error().message, HasSubstr("Read-only file system"));
}

// The same for who is not root: a folder without the right to write.
TEST(ReadOnlyFolder, IsOpenedForReading) {
  if (::geteuid() == 0) GTEST_SKIP() << "SKIPPED: root may write into any folder";
  const test::TemporaryDirectory directory;
  { test::open_store(directory.path()); }
  ASSERT_EQ(::chmod(directory.path().c_str(), 0500), 0);
  const auto store = ConversationStore::open({.file = directory.path() / "chats.db"});
  ::chmod(directory.path().c_str(), 0700);
  ASSERT_TRUE(store) << store.error().message;
  EXPECT_TRUE(store->read_only());
  EXPECT_TRUE(store->list());
}

}  // namespace
}  // namespace runnel

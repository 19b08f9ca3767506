// SPDX-License-Identifier: Apache-2.0
// Processes that die at any moment, processes that write at once, disks that fail.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "runnel/conversation.h"
#include "runtime/store/store_impl.h"
#include "tests/store/chat_model.h"
#include "tests/support/random.h"
#include "tests/support/temporary_directory.h"

namespace runnel {
namespace {

namespace fs = std::filesystem;
using test::open_store;
using ::testing::HasSubstr;

// Saves as fast as it can, tells each finished message through the pipe, until it is killed.
[[noreturn]] void save_until_killed(const fs::path& folder, ConversationId id, MessageId parent,
                                    const std::vector<NewBoundary>& all, int report) {
  ConversationStore store = open_store(folder, 20'000);
  std::string warning;
  for (std::size_t i = 0;; ++i) {
    const auto added = test::add_message(store, id, parent, all[i % all.size()], warning);
    if (!added) _exit(3);
    parent = *added;
    if (write(report, &parent, sizeof parent) != sizeof parent) _exit(4);
  }
}

int kills() {
  const char* wanted = std::getenv("RUNNEL_TEST_KILLS");
  return wanted != nullptr ? std::atoi(wanted) : 200;
}

TEST(StoreCrash, KilledAtAnyMomentLosesNothingThatWasSaved) {
  const test::TemporaryDirectory directory;
  const std::vector<NewBoundary> all = test::boundaries(20);
  ConversationId id = 0;
  {
    ConversationStore store = open_store(directory.path());
    id = *impl_of(store).new_conversation("talk");
  }
  test::Random random(11);
  MessageId last_saved = 0;
  int saved_in_all = 0;
  for (int round = 0; round < kills(); ++round) {
    int ends[2] = {};
    ASSERT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      close(ends[0]);
      save_until_killed(directory.path(), id, last_saved, all, ends[1]);
    }
    close(ends[1]);
    // Some saves, then a random part of one more.
    const std::uint64_t wait_for = random.below(3);
    MessageId saved = 0;
    for (std::uint64_t i = 0; i < wait_for; ++i) {
      ASSERT_EQ(read(ends[0], &saved, sizeof saved), ssize_t(sizeof saved));
      last_saved = saved;
      ++saved_in_all;
    }
    usleep(static_cast<useconds_t>(random.below(3000)));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status)) << "exit " << WEXITSTATUS(status);
    while (read(ends[0], &saved, sizeof saved) == ssize_t(sizeof saved)) {
      last_saved = saved;
      ++saved_in_all;
    }
    close(ends[0]);

    auto store = ConversationStore::open({.file = directory.path() / "chats.db"});
    ASSERT_TRUE(store) << "round " << round << ": " << store.error().message;
    const auto head = store->info(id)->head;
    ASSERT_GE(head, last_saved) << "round " << round;
    if (head == 0) continue;
    const auto path = impl_of(*store).read_path(head, all[0].model);
    ASSERT_TRUE(path) << path.error().message;
    // Every message is whole; of the last ones, a snapshot that is named is one that loads.
    for (const PathStep& step : *path) {
      ASSERT_TRUE(step.has_tokens);
      ASSERT_EQ(step.message.text, "message at " + std::to_string(step.position));
    }
    const PathStep& last = path->back();
    ASSERT_NE(last.snapshot, "");
    const auto snapshot = impl_of(*store).read_snapshot(last.snapshot);
    ASSERT_TRUE(snapshot) << "round " << round;
    ASSERT_EQ(snapshot->position(), last.position);
    last_saved = head;
  }
  ConversationStore store = open_store(directory.path());
  auto check = impl_of(store).database.prepare("PRAGMA integrity_check");
  ASSERT_TRUE(check->step());
  EXPECT_EQ(check->text(0), "ok");
  EXPECT_GT(saved_in_all, kills() / 2);
}

TEST(StoreCrash, TwoProcessesWriteAtOnce) {
  constexpr int kMessages = 40;
  const test::TemporaryDirectory directory;
  const std::vector<NewBoundary> all = test::boundaries(4);
  std::vector<pid_t> children;
  for (int process = 0; process < 2; ++process) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    // Both make the file, too.
    ConversationStore store = open_store(directory.path(), 10'000);
    const auto id = impl_of(store).new_conversation("process " + std::to_string(process));
    MessageId parent = 0;
    std::string warning;
    for (int i = 0; id && i < kMessages; ++i) {
      const auto added = test::add_message(store, *id, parent,
                                           all[static_cast<std::size_t>(i) % all.size()], warning);
      if (!added || !warning.empty()) _exit(1);
      parent = *added;
    }
    _exit(id ? 0 : 2);
  }
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  ConversationStore store = open_store(directory.path());
  const auto list = store.list();
  ASSERT_EQ(list->size(), 2U);
  for (const ConversationInfo& conversation : *list) {
    EXPECT_EQ(conversation.messages, kMessages);
    EXPECT_EQ(store.path(conversation.head)->size(), std::size_t(kMessages));
  }
}

// One call of a kind fails with an error; the others work.
class FailingSystem final : public FileSystem {
 public:
  enum class Call { none, open, write, close, rename };
  FailingSystem(Call call, int error) : call_(call), error_(error) {}

  int open(const fs::path& path, int flags, mode_t mode) const override {
    return fails(Call::open) ? -1 : FileSystem::open(path, flags, mode);
  }
  ssize_t write(int fd, std::span<const std::byte> bytes) const override {
    if (call_ == Call::write && bytes.size() > 1) {  // a full disk takes a part first
      call_ = Call::none;
      const ssize_t part = FileSystem::write(fd, bytes.first(bytes.size() / 2));
      call_ = Call::open;  // never reached again; keeps the failure below
      rest_fails_ = true;
      return part;
    }
    if (rest_fails_) {
      errno = error_;
      return -1;
    }
    return FileSystem::write(fd, bytes);
  }
  int close(int fd) const override {
    const int closed = FileSystem::close(fd);
    return fails(Call::close) ? -1 : closed;
  }
  int rename(const fs::path& from, const fs::path& to) const override {
    return fails(Call::rename) ? -1 : FileSystem::rename(from, to);
  }

 private:
  bool fails(Call call) const {
    if (call != call_ || rest_fails_) return false;
    errno = error_;
    return true;
  }
  mutable Call call_;
  mutable bool rest_fails_ = false;
  int error_;
};

TEST(StoreCrash, ADiskThatFailsCostsTheSnapshotAndNotTheMessage) {
  using Call = FailingSystem::Call;
  const std::pair<Call, int> failures[] = {{Call::write, ENOSPC}, {Call::open, EROFS},
                                           {Call::open, EACCES},  {Call::close, EIO},
                                           {Call::rename, EXDEV}, {Call::rename, EACCES}};
  for (const auto& [call, error] : failures) {
    const test::TemporaryDirectory directory;
    const auto model = test::chat_model();
    ConversationStore store = open_store(directory.path());
    auto chat = Conversation::create(store, model, {.name = "talk"});
    ASSERT_TRUE(chat);
    const FailingSystem failing(call, error);
    impl_of(store).cache.use(&failing);
    const auto turn = chat->send("Hello", test::short_answer());
    ASSERT_TRUE(turn) << turn.error().message;
    EXPECT_THAT(turn->warning, HasSubstr("read again"));
    const auto next = chat->send("More", test::short_answer());
    ASSERT_TRUE(next) << next.error().message;
    EXPECT_EQ(next->cost.replayed, 0U) << "the running session needs no file";
    impl_of(store).cache.use(&FileSystem::real());
    for (const auto& entry : fs::directory_iterator(directory.path() / "chats.db.snapshots")) {
      ADD_FAILURE() << entry.path() << " was left";
    }
    auto again = Conversation::open(store, model, chat->id());
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(again->cost().replayed, chat->session().position());
  }
}

TEST(StoreCrash, ADatabaseThatCannotGrowFailsWithoutLosingTheThread) {
  const test::TemporaryDirectory directory;
  const auto model = test::chat_model();
  ConversationStore store = open_store(directory.path());
  auto chat = Conversation::create(store, model, {.name = "talk"});
  ASSERT_TRUE(chat);
  const auto first = chat->send("Hello", test::short_answer());
  ASSERT_TRUE(first);
  // SQLite's own way to say that the disk is full.
  Database& database = impl_of(store).database;
  const auto pages = database.number("PRAGMA page_count");
  ASSERT_TRUE(database.run(("PRAGMA max_page_count = " + std::to_string(**pages)).c_str()));
  const auto turn = chat->send(std::string(8'000, 'x'), test::short_answer());
  ASSERT_FALSE(turn);
  EXPECT_EQ(turn.error().code, ErrorCode::io);
  EXPECT_THAT(turn.error().message, HasSubstr("full"));
  EXPECT_EQ(chat->head(), first->answer);
  ASSERT_TRUE(database.run("PRAGMA max_page_count = 1000000"));
  const auto next = chat->send("More", test::short_answer());
  ASSERT_TRUE(next) << next.error().message;
  EXPECT_EQ(store.path(chat->head())->size(), 4U);
}

TEST(StoreCrash, ALockedDatabaseIsAnErrorThatSaysSo) {
  const test::TemporaryDirectory directory;
  ConversationStore writer = open_store(directory.path());
  auto waiting = ConversationStore::open(
      {.file = directory.path() / "chats.db", .busy_timeout = std::chrono::milliseconds(1)});
  ASSERT_TRUE(waiting);
  const auto id = impl_of(writer).new_conversation("talk");
  auto transaction = Transaction::begin(impl_of(writer).database);
  ASSERT_TRUE(transaction);
  const Status renamed = waiting->rename(*id, "other");
  ASSERT_FALSE(renamed);
  EXPECT_EQ(renamed.error().code, ErrorCode::io);
  EXPECT_THAT(renamed.error().message, HasSubstr("another process"));
  EXPECT_TRUE(waiting->list()) << "reading goes on";
}

}  // namespace
}  // namespace runnel

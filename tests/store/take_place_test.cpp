// SPDX-License-Identifier: Apache-2.0
// A new library takes the place of an old one: killed before or after any of its steps, or where one of them fails,
// either the old one is there whole or both are.
#include "runtime/store/take_place.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <functional>

#include "runtime/base/try.h"
#include "runtime/store/store_impl.h"
#include "tests/store/chat_model.h"
#include "tests/support/temporary_directory.h"

namespace runnel {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOld = "in the log old ";

// Dies, or fails once, at the call of this number.
class CountedSystem final : public FileSystem {
 public:
  enum class Then { die, fail };
  CountedSystem(int number, Then then) : left_(number), then_(then) {}

  int open(const fs::path& path, int flags, mode_t mode) const override {
    return stops() ? -1 : FileSystem::open(path, flags, mode);
  }
  int fsync(int fd) const override { return stops() ? -1 : FileSystem::fsync(fd); }
  int rename(const fs::path& from, const fs::path& to) const override {
    return stops() ? -1 : FileSystem::rename(from, to);
  }
  int link(const fs::path& from, const fs::path& to) const override {
    return stops() ? -1 : FileSystem::link(from, to);
  }
  int unlink(const fs::path& path) const override {
    return stops() ? -1 : FileSystem::unlink(path);
  }

  bool reached() const { return left_ <= 0; }

 private:
  bool stops() const {
    if (--left_ != 0) return false;
    if (then_ == Then::die) ::kill(::getpid(), SIGKILL);
    errno = EIO;
    return true;
  }
  mutable int left_;
  Then then_;
};

class TakePlace : public ::testing::Test {
 protected:
  // An old library whose second message is in its log alone, and a new one to take its place.
  void SetUp() override {
    const fs::path source = laid_ / "source.db";
    for (const char* text : {"old", "in the log"}) {
      auto store = ConversationStore::open({.file = source});
      ASSERT_TRUE(store) << store.error().message;
      ASSERT_TRUE(store->add({.text = text, .name = text}));
      for (const char* part : {"", "-wal", "-shm"})
        fs::copy_file(beside(source, part), beside(laid_ / "chats.db", part),
                      fs::copy_options::overwrite_existing);
    }
    remove_library(source);
    auto made = ConversationStore::open({.file = new_beside(laid_ / "chats.db")});
    ASSERT_TRUE(made) << made.error().message;
    ASSERT_TRUE(made->add({.text = "new", .name = "new"}));
  }
  void lay(const fs::path& folder) {
    file_ = folder / "chats.db";
    kept_ = folder / "chats.damaged-1.db";
    fs::copy(laid_.path(), folder);
  }

  // @return names of its chats, newest first; what is wrong otherwise.
  static std::string chats_of(const fs::path& file) {
    const auto store = ConversationStore::open({.file = file});
    if (!store) return store.error().message;
    const auto all = store->list();
    if (!all) return all.error().message;
    std::string names;
    for (const ConversationInfo& chat : *all) names += chat.name + " ";
    return names;
  }

  // @return whether the new one has the place.
  bool expect_whole(const std::string& where) {
    const bool taken = !fs::exists(new_beside(file_));
    const std::string chats = chats_of(file_);  // which also puts right what was left
    EXPECT_EQ(chats, taken ? "new " : kOld) << where;
    EXPECT_FALSE(fs::exists(new_beside(file_))) << where;
    EXPECT_EQ(fs::exists(kept_), taken) << where;
    if (taken) {
      EXPECT_EQ(chats_of(kept_), kOld) << where;
    } else {
      EXPECT_FALSE(fs::exists(beside(kept_, "-wal"))) << where;
      EXPECT_FALSE(fs::exists(beside(kept_, "-shm"))) << where;
      EXPECT_EQ(fs::hard_link_count(file_), 1U) << where;
    }
    return taken;
  }

  // Runs `what` in a process that dies at its call number `at` of the file system. @return whether it died.
  static bool dies(int at, const std::function<Status(const FileSystem&)>& what) {
    const pid_t child = ::fork();
    if (child == 0) {
      const CountedSystem system(at, CountedSystem::Then::die);
      ::_exit(what(system) ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    return WIFSIGNALED(status);
  }

  Status take(const FileSystem& system) {
    RUNNEL_TRY(const FolderLock lock, FolderLock::wait(file_));
    return take_place(lock, file_, kept_, system);
  }

  test::TemporaryDirectory laid_;
  fs::path file_;
  fs::path kept_;
};

TEST_F(TakePlace, TheNewOneIsThereAndTheOldOneIsKeptWithItsLog) {
  const test::TemporaryDirectory directory;
  lay(directory.path());
  ASSERT_GT(fs::file_size(beside(file_, "-wal")), 0U);
  const Status done = take(FileSystem::real());
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_GT(fs::file_size(beside(kept_, "-wal")), 0U);
  EXPECT_FALSE(fs::exists(beside(file_, "-wal")));
  EXPECT_FALSE(fs::exists(beside(new_beside(file_), ".reserve")));
  EXPECT_TRUE(expect_whole("done"));
}

TEST_F(TakePlace, KilledAtAnyStepAndAgainWhileThatIsPutRightNothingIsLost) {
  int taken = 0, left = 0;
  bool died = true;
  for (int at = 1; died; ++at) {
    bool died_again = true;
    for (int again = 1; died_again; ++again) {
      const test::TemporaryDirectory directory;
      lay(directory.path());
      died = dies(at, [this](const FileSystem& system) { return take(system); });
      const bool there = !fs::exists(new_beside(file_));
      died_again =
          dies(again, [this](const FileSystem& system) { return tidy_places(file_, system); });
      const std::string where = "killed at " + std::to_string(at) + " and " + std::to_string(again);
      // The new one is not there to be taken back if it is removed before the old one is whole.
      if (died_again) {
        ASSERT_EQ(fs::exists(new_beside(file_)), !there) << where;
      } else if (!there) {
        ASSERT_EQ(chats_of(file_), kOld) << where;
        ASSERT_FALSE(fs::exists(kept_)) << where;
        continue;
      }
      (expect_whole(where) ? taken : left) += 1;
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(taken, 1);
  EXPECT_GT(left, 20);
}

TEST_F(TakePlace, AStepThatFailsLeavesTheOldOne) {
  int failed = 0;
  for (int at = 1;; ++at) {
    const test::TemporaryDirectory directory;
    lay(directory.path());
    const CountedSystem system(at, CountedSystem::Then::fail);
    const Status done = take(system);
    if (!done) {
      ++failed;
      EXPECT_EQ(done.error().code, ErrorCode::io);
      EXPECT_FALSE(expect_whole("failed at " + std::to_string(at)));
    } else {
      EXPECT_TRUE(expect_whole("done though " + std::to_string(at) + " failed"));
    }
    if (HasFailure() || !system.reached()) break;
  }
  EXPECT_GE(failed, 6);
}

TEST_F(TakePlace, OneThatIsBeingMadeIsLeftAlone) {
  const test::TemporaryDirectory directory;
  lay(directory.path());
  {
    const auto lock = FolderLock::wait(file_);
    ASSERT_TRUE(lock);
    EXPECT_EQ(chats_of(file_), kOld);
    EXPECT_TRUE(fs::exists(new_beside(file_)));
  }
  EXPECT_EQ(chats_of(file_), kOld);
  EXPECT_FALSE(fs::exists(new_beside(file_)));
}

TEST_F(TakePlace, TheKeptOnesHaveNamesOfTheirOwn) {
  const test::TemporaryDirectory directory;
  const fs::path file = directory / "chats.db";
  EXPECT_EQ(kept_beside(file, "kept-x"), directory / "chats.kept-x.db");
  directory.file("chats.kept-x.db", "");
  EXPECT_EQ(kept_beside(file, "kept-x"), directory / "chats.kept-x-2.db");
  const test::TemporaryDirectory other;
  lay(other.path());
  { std::ofstream(kept_) << "mine"; }
  EXPECT_FALSE(take(FileSystem::real()));
  EXPECT_EQ(test::read_text(kept_), "mine");
  EXPECT_EQ(chats_of(file_), kOld);
}

}  // namespace
}  // namespace runnel

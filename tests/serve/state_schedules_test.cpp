// SPDX-License-Identifier: Apache-2.0
// Saving and deleting at once, stepped through system call by system call; and disks that refuse.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <functional>
#include <new>
#include <stdexcept>
#include <thread>

#include "app/serve/kept_states.h"
#include "tests/support/chat_model.h"
#include "tests/support/loaded_model.h"
#include "tests/support/temporary_directory.h"

namespace runnel {
namespace {

using serve::HttpError;
using serve::KeptState;
using serve::KeptStates;
using serve::StateMark;

// The real disk, with something done before the n-th call; or a disk that is full from it on.
class SteppedDisk final : public FileSystem {
 public:
  std::function<void()> then;
  int at = -1;
  int fail_with = 0;
  mutable std::atomic<int> calls{0};

  int open(const std::filesystem::path& path, int flags, mode_t mode) const override {
    return step() ? FileSystem::open(path, flags, mode) : -1;
  }
  ssize_t write(int fd, std::span<const std::byte> bytes) const override {
    return step() ? FileSystem::write(fd, bytes) : -1;
  }
  int fsync(int fd) const override { return step() ? FileSystem::fsync(fd) : -1; }
  int rename(const std::filesystem::path& from, const std::filesystem::path& to) const override {
    return step() ? FileSystem::rename(from, to) : -1;
  }

 private:
  bool step() const {
    const int call = calls++;
    if (call == at && then) then();
    if (fail_with != 0 && at >= 0 && call >= at) {
      errno = fail_with;
      return false;
    }
    return true;
  }
};

class StateSchedules : public ::testing::Test {
 protected:
  std::unique_ptr<KeptStates> open(bool autosave) {
    auto states = KeptStates::open(
        model_, {.most = 4, .directory = folder_.path(), .autosave = autosave, .system = &disk_});
    EXPECT_TRUE(states) << states.error().message;
    return *std::move(states);
  }
  // One answered request.
  std::variant<StateMark, HttpError> answer(KeptStates& states, const std::string& id) {
    auto got = states.take(id, {});
    if (const auto* error = std::get_if<HttpError>(&got)) return *error;
    auto& taken = std::get<KeptStates::Taken>(got);
    const bool was_kept = taken.state.has_value();
    KeptState state;
    if (was_kept) {
      state = *std::move(taken.state);
    } else {
      state.session = std::make_unique<Session>(*Session::create(model_));
    }
    const std::vector<TokenId> tokens = {1, 2, 3};
    EXPECT_TRUE(state.session->prefill(tokens));
    return states.give_back(id, std::move(state), was_kept, true);
  }
  std::size_t files() const {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
      count += entry.path().filename() != ".lock" ? 1U : 0U;
    return count;
  }

  const std::shared_ptr<const Model> model_ = test::load_model(test::chat_weights(), "cpu", 1);
  test::TemporaryDirectory folder_;
  SteppedDisk disk_;
};

TEST_F(StateSchedules, DeletedIsDeletedWheneverItIsAsked) {
  int steps = 0;
  {
    const auto states = open(false);
    ASSERT_TRUE(std::holds_alternative<StateMark>(answer(*states, "c")));
    disk_.calls = 0;
    ASSERT_TRUE(std::holds_alternative<StateMark>(states->save("c")));
    steps = disk_.calls;
    ASSERT_FALSE(states->remove("c"));
  }
  EXPECT_GE(steps, 5) << "open, write, sync, rename, sync of the folder";
  for (int at = 0; at < steps; ++at) {
    const auto states = open(false);
    ASSERT_TRUE(std::holds_alternative<StateMark>(answer(*states, "c")));
    std::thread deleting;
    std::optional<HttpError> refused;
    disk_.calls = 0;
    disk_.at = at;
    disk_.then = [&] { deleting = std::thread([&] { refused = states->remove("c"); }); };
    EXPECT_TRUE(std::holds_alternative<StateMark>(states->save("c")));
    ASSERT_TRUE(deleting.joinable()) << at;
    deleting.join();
    disk_.at = -1;
    EXPECT_FALSE(refused) << refused->message;
    EXPECT_EQ(files(), 0U) << "deleted before call " << at;
    const auto again = states->take("c", {});
    ASSERT_TRUE(std::holds_alternative<KeptStates::Taken>(again));
    EXPECT_FALSE(std::get<KeptStates::Taken>(again).state);
  }
}

TEST_F(StateSchedules, WhatCannotBeWrittenIsNotAcknowledgedAndDoesNotCount) {
  const auto states = open(true);
  const auto first = answer(*states, "c");
  ASSERT_TRUE(std::holds_alternative<StateMark>(first));
  const StateMark kept = std::get<StateMark>(first);
  disk_.calls = 0;
  for (const int at : {0, 1, 3}) {
    disk_.calls = 0;
    disk_.at = at;
    disk_.fail_with = ENOSPC;
    const auto failed = answer(*states, "c");
    disk_.at = -1;
    ASSERT_TRUE(std::holds_alternative<HttpError>(failed)) << at;
    const HttpError& error = std::get<HttpError>(failed);
    EXPECT_EQ(error.status, 507);
    EXPECT_NE(error.message.find("No space left on device"), std::string::npos) << error.message;
    ASSERT_TRUE(error.exists);
    EXPECT_EQ(error.exists->generation, kept.generation);
    EXPECT_EQ(files(), 1U) << "and no temporary file";
  }
  const auto again = states->take("c", {.generation = kept.generation});
  ASSERT_TRUE(std::holds_alternative<KeptStates::Taken>(again));
  EXPECT_EQ(std::get<KeptStates::Taken>(again).state->session->position(), kept.position);
}

TEST_F(StateSchedules, AStateThatIsLostIsSaidToBe) {
  const auto states = open(false);
  const auto first = answer(*states, "c");
  ASSERT_TRUE(std::holds_alternative<StateMark>(states->save("c")));
  ASSERT_TRUE(std::holds_alternative<StateMark>(answer(*states, "c")));
  disk_.calls = 0;
  disk_.at = 0;
  disk_.fail_with = ENOSPC;
  for (const char* other : {"d", "e", "f", "g", "h"}) answer(*states, other);
  const StateMark saved = std::get<StateMark>(first);
  auto got = states->take("c", {});
  ASSERT_TRUE(std::holds_alternative<KeptStates::Taken>(got));
  const auto& taken = std::get<KeptStates::Taken>(got);
  EXPECT_TRUE(taken.forgotten);
  EXPECT_FALSE(taken.state);
  ASSERT_TRUE(taken.exists);
  EXPECT_EQ(taken.exists->generation, saved.generation);
  EXPECT_EQ(taken.exists->position, saved.position);
  states->release("c", 0);
  got = states->take("c", {.generation = saved.generation});
  ASSERT_TRUE(std::holds_alternative<KeptStates::Taken>(got));
  auto& older = std::get<KeptStates::Taken>(got).state;
  ASSERT_TRUE(older) << "who asks for the older one gets it";
  states->give_back("c", *std::move(older), true, false);
  got = states->take("c", {});
  ASSERT_TRUE(std::holds_alternative<KeptStates::Taken>(got));
  EXPECT_TRUE(std::get<KeptStates::Taken>(got).forgotten) << "others are told still";
}

TEST_F(StateSchedules, AStateThatMemoryDoesNotSufficeToWriteIsKept) {
  const auto states = open(false);
  const auto first = answer(*states, "c");
  ASSERT_TRUE(std::holds_alternative<StateMark>(first));
  disk_.calls = disk_.at = 0;
  disk_.then = [] { throw std::bad_alloc(); };
  const auto failed = states->save("c");
  ASSERT_TRUE(std::holds_alternative<HttpError>(failed));
  EXPECT_EQ(std::get<HttpError>(failed).status, 507);
  EXPECT_TRUE(std::holds_alternative<StateMark>(states->save("c")));
  EXPECT_EQ(files(), 1U);
}

TEST_F(StateSchedules, NobodyWaitsForWhatAnExceptionEnded) {
  const auto states = open(false);
  ASSERT_TRUE(std::holds_alternative<StateMark>(answer(*states, "c")));
  disk_.then = [] { throw std::runtime_error("the disk is gone"); };
  disk_.calls = disk_.at = 0;
  EXPECT_THROW(static_cast<void>(states->save("c")), std::runtime_error);
  EXPECT_TRUE(std::holds_alternative<StateMark>(answer(*states, "c"))) << "it begins anew";
  for (const char* other : {"d", "e", "f"}) answer(*states, other);
  disk_.calls = disk_.at = 0;
  EXPECT_THROW(answer(*states, "g"), std::runtime_error) << "it needs the room of c";
  for (const char* id : {"c", "g"})
    EXPECT_TRUE(std::holds_alternative<StateMark>(answer(*states, id))) << id;
}

TEST_F(StateSchedules, AFullDiskStillDeletes) {
  const auto states = open(true);
  ASSERT_TRUE(std::holds_alternative<StateMark>(answer(*states, "c")));
  ASSERT_EQ(files(), 1U);
  disk_.fail_with = ENOSPC;
  EXPECT_FALSE(states->remove("c"));
  EXPECT_EQ(files(), 0U);
}

}  // namespace
}  // namespace runnel

// SPDX-License-Identifier: Apache-2.0
// The scheduler: who advances when.
#include "app/serve/scheduler.h"

#include <gtest/gtest.h>

#include <mutex>
#include <string>
#include <vector>

#include "tests/support/chat_model.h"
#include "tests/support/loaded_model.h"

namespace runnel {
namespace {

using serve::Job;
using serve::Scheduler;

class Scheduling : public ::testing::Test {
 protected:
  std::shared_ptr<Job> job(const std::string& name, std::size_t prompt, std::uint64_t tokens) {
    auto made = std::make_shared<Job>(model_, nullptr, std::vector<TokenId>(prompt, 7),
                                      GenerationOptions{.max_tokens = tokens, .ignore_end = true});
    made->when_over = [this, name](Job& done, std::unique_ptr<Session> session) {
      const std::lock_guard lock(mutex_);
      order_.push_back(name);
      generated_.push_back(done.result().tokens.size());
      EXPECT_TRUE(session);
    };
    return made;
  }

  static void finish(Job& job) {
    while (!job.wait(std::chrono::seconds(1)).over) {
    }
  }

  const std::shared_ptr<const Model> model_ = test::load_model(test::chat_weights(), "cpu", 1);
  std::mutex mutex_;
  std::vector<std::string> order_;
  std::vector<std::size_t> generated_;
};

TEST_F(Scheduling, ALongPromptDoesNotHoldUpAShortOne) {
  Scheduler scheduler({.parallel = 4, .queue = 4});
  const auto patient = job("long", 30'000, 1);
  const auto quick = job("short", 4, 2);
  ASSERT_TRUE(scheduler.submit(patient));
  ASSERT_TRUE(scheduler.submit(quick));
  finish(*patient);
  finish(*quick);
  EXPECT_EQ(order_, (std::vector<std::string>{"short", "long"}));
}

TEST_F(Scheduling, ALongAnswerDoesNotHoldUpAShortOne) {
  Scheduler scheduler({.parallel = 4, .queue = 4});
  const auto patient = job("long", 4, 3000);
  const auto quick = job("short", 4, 3);
  ASSERT_TRUE(scheduler.submit(patient));
  ASSERT_TRUE(scheduler.submit(quick));
  finish(*patient);
  finish(*quick);
  EXPECT_EQ(order_, (std::vector<std::string>{"short", "long"}));
  EXPECT_EQ(generated_, (std::vector<std::size_t>{3, 3000}));
}

TEST_F(Scheduling, AFullBatchDoesNotHoldUpAShortRequest) {
  Scheduler scheduler({.parallel = 2, .extra = 1, .queue = 4});
  std::vector<std::shared_ptr<Job>> jobs;
  for (const char* name : {"long 1", "long 2"}) jobs.push_back(job(name, 4, 3000));
  jobs.push_back(job("short", 4, 20));
  for (const auto& j : jobs) ASSERT_TRUE(scheduler.submit(j));
  for (const auto& j : jobs) finish(*j);
  ASSERT_EQ(order_.size(), 3U);
  EXPECT_EQ(order_.front(), "short");
}

TEST_F(Scheduling, ClientsShareTheTurns) {
  Scheduler scheduler({.parallel = 2, .extra = 6, .queue = 16});
  std::vector<std::shared_ptr<Job>> jobs;
  for (int i = 0; i < 5; ++i) {
    jobs.push_back(job("greedy", 4, 600));
    jobs.back()->client = "a";
  }
  jobs.push_back(job("modest", 4, 600));
  jobs.back()->client = "b";
  for (const auto& j : jobs) ASSERT_TRUE(scheduler.submit(j));
  for (const auto& j : jobs) finish(*j);
  ASSERT_EQ(order_.size(), 6U);
  EXPECT_EQ(order_.front(), "modest") << "half of the turns are its client's";
}

TEST(Turns, GoToWhoHadLeastAndToEveryClient) {
  using serve::choose_turns;
  using Chosen = std::vector<std::size_t>;
  EXPECT_EQ(choose_turns({{"a", 5, 1}, {"a", 0, 2}}, 2), (Chosen{0, 1})) << "all fit";
  EXPECT_EQ(choose_turns({{"a", 5, 1}, {"a", 0, 2}, {"a", 3, 3}}, 2), (Chosen{1, 2}));
  EXPECT_EQ(choose_turns({{"a", 0, 1}, {"a", 0, 2}, {"b", 9, 3}}, 2), (Chosen{0, 2}));
  EXPECT_EQ(choose_turns({{"a", 9, 1, serve::kMostSkips}, {"a", 0, 2}, {"b", 0, 3}}, 1),
            (Chosen{0}))
      << "nobody waits for ever";
}

TEST(Turns, PromptsAreReadByTheClock) {
  serve::PromptPace pace(128, std::chrono::milliseconds(50), std::chrono::milliseconds(85));
  EXPECT_EQ(pace.tokens(false), 128U) << "nobody waits";
  pace.took(128, std::chrono::milliseconds(1200));  // a model of 1.3B on two cores
  EXPECT_LE(pace.tokens(true), 6U);
  EXPECT_GE(pace.tokens(true), 4U);
  for (int i = 0; i < 40; ++i) pace.took(100, std::chrono::milliseconds(10));
  EXPECT_EQ(pace.tokens(true), 128U);
  pace.took(128, std::chrono::milliseconds(100));
  EXPECT_EQ(pace.tokens(true), 64U) << "slower is believed at once";
}

TEST(Turns, PromptsGetWhatAPassLeavesOfThePause) {
  serve::PromptPace pace(128, std::chrono::milliseconds(50), std::chrono::milliseconds(85));
  pace.took(100, std::chrono::milliseconds(100));
  EXPECT_EQ(pace.tokens(true), 50U) << "a whole slice after short passes";
  for (int i = 0; i < 40; ++i) pace.decoded(std::chrono::milliseconds(60));
  EXPECT_NEAR(static_cast<double>(pace.tokens(true)), 25.0, 1.0);
  for (int i = 0; i < 40; ++i) pace.decoded(std::chrono::milliseconds(200));
  EXPECT_EQ(pace.tokens(true), 10U) << "prompts are read, however slow the passes are";
}

TEST_F(Scheduling, EqualRequestsEndInTheOrderInWhichTheyCame) {
  Scheduler scheduler({.parallel = 2, .queue = 16});
  std::vector<std::shared_ptr<Job>> jobs;
  std::vector<std::string> names;
  for (int i = 0; i < 8; ++i) {
    names.push_back(std::to_string(i));
    jobs.push_back(job(names.back(), 16, 20));
    ASSERT_TRUE(scheduler.submit(jobs.back()));
  }
  for (const auto& j : jobs) finish(*j);
  EXPECT_EQ(order_, names);
}

TEST_F(Scheduling, DecodingIsOnePassForAll) {
  Scheduler scheduler({.parallel = 4, .queue = 4});
  std::vector<std::shared_ptr<Job>> jobs;
  for (int i = 0; i < 4; ++i) jobs.push_back(job(std::to_string(i), 4, 500));
  for (const auto& j : jobs) ASSERT_TRUE(scheduler.submit(j));
  for (const auto& j : jobs) finish(*j);
  // Those that came while the first was alone under way add a few passes of their own.
  EXPECT_EQ(scheduler.counts().generated, 2000U);
  EXPECT_LT(scheduler.counts().passes, 1500U);
}

TEST_F(Scheduling, AnEndingServerEndsWhatRunsAndWhatWaits) {
  std::vector<std::shared_ptr<Job>> jobs;
  {
    Scheduler scheduler({.parallel = 1, .queue = 4});
    for (int i = 0; i < 3; ++i) {
      jobs.push_back(
          std::make_shared<Job>(model_, nullptr, std::vector<TokenId>{1, 2},
                                GenerationOptions{.max_tokens = UINT64_MAX, .ignore_end = true}));
      ASSERT_TRUE(scheduler.submit(jobs.back()));
    }
  }
  for (const auto& j : jobs) {
    EXPECT_TRUE(j->wait(std::chrono::milliseconds(0)).over);
    EXPECT_TRUE(j->error());
  }
}

}  // namespace
}  // namespace runnel

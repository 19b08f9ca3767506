// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/background_task.h"

#include <gtest/gtest.h>

#include <atomic>

#include "runtime/base/try.h"

namespace runnel {
namespace {

TEST(BackgroundTask, GivesTheValue) {
  BackgroundTask<int> work([]() -> Result<int> { return 7; });
  const Result<int> got = work.get();
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(*got, 7);
}

TEST(BackgroundTask, GivesTheError) {
  BackgroundTask<int> work(
      []() -> Result<int> { return fail(ErrorCode::malformed, "line 3: no number"); });
  const Result<int> got = work.get();
  ASSERT_FALSE(got.has_value());
  EXPECT_EQ(got.error().message, "line 3: no number");
}

TEST(BackgroundTask, OutOfMemoryReachesTheCaller) {
  BackgroundTask<int> work([]() -> Result<int> { throw std::bad_alloc(); });
  EXPECT_THROW((void)work.get(), std::bad_alloc);
}

TEST(BackgroundTask, ItsDestructorWaitsForTheWork) {
  std::atomic<bool> go = false, done = false;
  {
    BackgroundTask<int> work([&]() -> Result<int> {
      go.wait(false);
      done = true;
      return 1;
    });
    EXPECT_FALSE(done);
    go = true;
    go.notify_all();
  }
  EXPECT_TRUE(done);
}

}  // namespace
}  // namespace runnel

// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/beside.h"

#include <gtest/gtest.h>

#include <atomic>

#include "runtime/base/try.h"

namespace runnel {
namespace {

TEST(Beside, GivesTheValue) {
  Beside<int> work([]() -> Result<int> { return 7; });
  const Result<int> got = work.get();
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(*got, 7);
}

TEST(Beside, GivesTheError) {
  Beside<int> work([]() -> Result<int> { return fail(ErrorCode::malformed, "line 3: no number"); });
  const Result<int> got = work.get();
  ASSERT_FALSE(got.has_value());
  EXPECT_EQ(got.error().message, "line 3: no number");
}

TEST(Beside, WantOfMemoryReachesTheCaller) {
  Beside<int> work([]() -> Result<int> { throw std::bad_alloc(); });
  EXPECT_THROW((void)work.get(), std::bad_alloc);
}

TEST(Beside, ItsEndWaitsForTheWork) {
  std::atomic<bool> go = false, done = false;
  {
    Beside<int> work([&]() -> Result<int> {
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

// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

namespace runnel {
namespace {

TEST(ThreadPool, RunsEveryItemOnceInEveryLoop) {
  for (int threads : {1, 2, 3, 8}) {
    auto pool = ThreadPool::create(threads);
    ASSERT_TRUE(pool.has_value());
    EXPECT_EQ((*pool)->threads(), threads);
    std::vector<int> seen(1000, 0);
    for (int loop = 0; loop < 2000; ++loop) {
      const int count = loop % 37;
      (*pool)->for_each(count, [&](int item, int) { ++seen[static_cast<std::size_t>(item)]; });
    }
    for (int item = 0; item < 37; ++item) {
      int expected = 0;
      for (int loop = 0; loop < 2000; ++loop) expected += item < loop % 37 ? 1 : 0;
      EXPECT_EQ(seen[static_cast<std::size_t>(item)], expected)
          << threads << " threads, item " << item;
    }
  }
}

TEST(ThreadPool, ThreadNumbersAreNeverSharedAtOneTime) {
  auto pool = ThreadPool::create(4);
  ASSERT_TRUE(pool.has_value());
  std::vector<std::atomic<int>> inside(4);
  std::atomic<int> clashes{0};
  (*pool)->for_each(5000, [&](int, int thread) {
    auto& mine = inside[static_cast<std::size_t>(thread)];
    if (mine.fetch_add(1) != 0) ++clashes;
    mine.fetch_sub(1);
  });
  EXPECT_EQ(clashes.load(), 0);
}

TEST(ThreadPool, ResultsOfALoopAreSeenAfterIt) {
  auto pool = ThreadPool::create(3);
  ASSERT_TRUE(pool.has_value());
  std::vector<long> a(64), b(64);
  for (long loop = 1; loop < 500; ++loop) {
    (*pool)->for_each(64, [&](int i, int) { a[static_cast<std::size_t>(i)] = loop * i; });
    (*pool)->for_each(64, [&](int i, int) {
      b[static_cast<std::size_t>(i)] = a[static_cast<std::size_t>(63 - i)];
    });
    for (long i = 0; i < 64; ++i) ASSERT_EQ(b[static_cast<std::size_t>(i)], loop * (63 - i));
  }
}

TEST(ThreadPool, RefusesAnAbsurdNumberOfThreads) {
  EXPECT_FALSE(ThreadPool::create(-1).has_value());
  EXPECT_FALSE(ThreadPool::create(100000).has_value());
}

}  // namespace
}  // namespace runnel

// SPDX-License-Identifier: Apache-2.0
// A long conversation takes no more memory than a short one.
#include <gtest/gtest.h>

#include <fstream>

#include "runtime/model/session_impl.h"
#include "tests/support/loaded_model.h"
#include "tests/support/random.h"
#include "tests/support/slow.h"

namespace runnel::test {
namespace {

constexpr std::size_t kTokens = 20'000;
constexpr std::int64_t kGrowthPages = 256;  // 1 MiB: what an allocator may move about

std::int64_t resident_pages() {
  std::ifstream statm("/proc/self/statm");
  std::int64_t total = 0;
  std::int64_t resident = 0;
  statm >> total >> resident;
  return resident;
}

TEST(LongSession, TwentyThousandTokensTakeNoMoreMemoryThanAThousand) {
  if (kSlowBuild) GTEST_SKIP() << "resident memory under a sanitizer is the sanitizer's";
  const std::shared_ptr<const Model> model =
      load_model(make_random_model(small_positional_config(), {}, 1));
  auto session = Session::create(model);
  ASSERT_TRUE(session.has_value());
  const std::uint64_t state_bytes = engine_of(*model).memory().state_bytes;
  Random random(2);
  std::int64_t early = 0;
  std::uint64_t early_snapshot = 0;
  for (std::size_t fed = 0; fed < kTokens; fed += 100) {
    // Half read, half generated token by token.
    ASSERT_TRUE(session->prefill(random.tokens(50, model->info().vocab_size)).has_value());
    for (const TokenId token : random.tokens(50, model->info().vocab_size)) {
      ASSERT_TRUE(impl_of(*session).step({&token, 1}).has_value());
    }
    if (session->position() == 2000) {
      early = resident_pages();
      early_snapshot = session->snapshot()->bytes();
    }
  }
  EXPECT_EQ(session->position(), kTokens);
  EXPECT_LE(resident_pages() - early, kGrowthPages);
  EXPECT_EQ(session->snapshot()->bytes(), early_snapshot);
  EXPECT_EQ(engine_of(*model).memory().state_bytes, state_bytes);
}

}  // namespace
}  // namespace runnel::test

// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/integers.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>

namespace runnel {
namespace {

TEST(Integers, DivideUpCountsTheLastPart) {
  EXPECT_EQ(divide_up(0, 16), 0);
  EXPECT_EQ(divide_up(1, 16), 1);
  EXPECT_EQ(divide_up(16, 16), 1);
  EXPECT_EQ(divide_up(17, 16), 2);
}

TEST(Integers, RoundUpGivesTheNextMultiple) {
  EXPECT_EQ(round_up(0, 16), 0);
  EXPECT_EQ(round_up(1, 16), 16);
  EXPECT_EQ(round_up(16, 16), 16);
  EXPECT_EQ(round_up(17, 3), 18);
}

TEST(Integers, NothingOverflowsBeforeTheResultDoes) {
  constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(divide_up(kMost, 2), std::uint64_t{1} << 63);
  EXPECT_EQ(round_up(kMost - 1, kMost), kMost);
  EXPECT_EQ(divide_up(std::numeric_limits<int>::max(), 2), 1 << 30);
}

TEST(Integers, MixedTypesGiveTheWiderOne) {
  static_assert(std::is_same_v<decltype(round_up(std::size_t{5}, 4)), std::size_t>);
  EXPECT_EQ(round_up(std::size_t{5}, 4), 8U);
}

TEST(Integers, PowersOfTwo) {
  EXPECT_TRUE(is_power_of_two(1));
  EXPECT_TRUE(is_power_of_two(std::uint64_t{1} << 63));
  for (const int n : {-8, -1, 0, 3, 6}) EXPECT_FALSE(is_power_of_two(n)) << n;
}

TEST(Integers, Log2IsOfThePowerBelow) {
  EXPECT_EQ(log2_floor(1), 0);
  EXPECT_EQ(log2_floor(31), 4);
  EXPECT_EQ(log2_floor(32U), 5);
}

}  // namespace
}  // namespace runnel

// SPDX-License-Identifier: Apache-2.0
// Numbers from text: all of it or nothing.
#include "runtime/base/number.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace runnel {
namespace {

TEST(NumberIn, IsAllOfTheText) {
  EXPECT_EQ(number_in<int>("-12"), -12);
  EXPECT_EQ(number_in<double>("1.5e3"), 1500.0);
  EXPECT_EQ(number_in<std::uint32_t>("1f", 16), 31U);
  for (const char* none : {"", " 1", "1 ", "+1", "1x", "x", "-"})
    EXPECT_EQ(number_in<int>(none), std::nullopt) << none;
}

TEST(NumberIn, IsOneThatTheTypeHolds) {
  EXPECT_EQ(number_in<std::int64_t>("9223372036854775807"), INT64_MAX);
  EXPECT_EQ(number_in<std::int64_t>("9223372036854775808"), std::nullopt);
  EXPECT_EQ(number_in<std::size_t>("-1"), std::nullopt);
}

}  // namespace
}  // namespace runnel

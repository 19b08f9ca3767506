// SPDX-License-Identifier: Apache-2.0
#include "runtime/sampling/exact_cuts.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/support/random.h"

namespace runnel {
namespace {

TEST(ExactCuts, SharesAreRoundedUp) {
  EXPECT_EQ(share_units(0.0F), 0U);
  EXPECT_EQ(share_units(0.5F), 0x80000000U);
  EXPECT_EQ(share_units(1.0F), 0xFFFFFFFFU);
  EXPECT_EQ(share_units(1e-30F), 1U);
  EXPECT_EQ(share_of(7, share_units(0.5F)), 4U);
  EXPECT_EQ(share_of(8, share_units(0.5F)), 4U);
  EXPECT_EQ(share_of(1, share_units(1e-30F)), 1U);
  EXPECT_EQ(share_of(std::uint64_t{1} << 48, share_units(0.25F)), std::uint64_t{1} << 46);
  EXPECT_EQ(share_of(12345, share_units(1.0F)), 12345U);
}

TEST(ExactCuts, SharesAreThoseOfRealNumbers) {
  test::Random random(3);
  for (int i = 0; i < 1000; ++i) {
    const std::uint64_t total = 1 + random.below(1U << 28);
    const float p = static_cast<float>(1 + random.below(1U << 24)) * 0x1p-24F;
    if (p >= 1.0F) continue;
    // Both factors are exact in a double, and so is their product.
    const double exact = std::ceil(double{p} * static_cast<double>(total));
    EXPECT_EQ(share_of(total, share_units(p)), static_cast<std::uint64_t>(exact)) << p;
  }
}

LogitSpread spread_of(const std::vector<int>& units) {
  LogitSpread s;
  for (const int u : units) {
    ++s.count;
    s.sum += u;
    s.squares += static_cast<std::uint64_t>(std::int64_t{u} * u);
  }
  return s;
}

TEST(ExactCuts, DeviationIsThatOfRealNumbers) {
  constexpr double kUnitsApart = 4.0;  // the variance is cut off to whole units, 2^-12 each
  test::Random random(4);
  for (const int mean : {0, 1000, -4'000'000}) {
    for (const float scale : {1.0F, 300.0F, 9000.0F}) {
      std::vector<int> units(5000);
      for (int& u : units) u = mean + static_cast<int>(scale * random.normal());
      double sum = 0.0, squares = 0.0;
      for (const int u : units) sum += u;
      const double centre = sum / 5000.0;
      for (const int u : units) squares += (u - centre) * (u - centre);
      EXPECT_NEAR(deviation(spread_of(units)), 4.0 * std::sqrt(squares / 5000.0), kUnitsApart)
          << mean << " " << scale;
    }
  }
}

TEST(ExactCuts, DeviationOfTheWidestLogitsFits) {
  LogitSpread s{.count = 1U << 19};  // half at each end
  s.squares = (std::uint64_t{1} << 44) << 19;
  EXPECT_EQ(deviation(s), 1U << 24);
  EXPECT_EQ(deviation(spread_of({5, 5, 5})), 0U);
  EXPECT_EQ(deviation(spread_of({-4194304})), 0U);
}

}  // namespace
}  // namespace runnel

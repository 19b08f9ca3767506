// SPDX-License-Identifier: Apache-2.0
// 16-bit floats against the definition of their formats, for every bit pattern.
#include "runtime/base/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace runnel {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// The value of a finite f16 from its fields.
double f16_value(unsigned h) {
  const double sign = (h & 0x8000U) != 0 ? -1.0 : 1.0;
  const int exponent = static_cast<int>((h >> 10) & 31U);
  const double mantissa = h & 1023U;
  return sign *
         (exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024.0 + mantissa, exponent - 25));
}

TEST(Half, EveryFiniteF16HasItsExactValueAndComesBack) {
  for (unsigned h = 0; h < 0x10000U; ++h) {
    if ((h & 0x7c00U) == 0x7c00U) continue;
    const float f = f16_to_f32(static_cast<std::uint16_t>(h));
    ASSERT_EQ(static_cast<double>(f), f16_value(h)) << h;
    ASSERT_EQ(std::signbit(f), (h & 0x8000U) != 0) << h;
    ASSERT_EQ(f32_to_f16(f), h);
  }
}

TEST(Half, F16InfinitiesAndNansStayWhatTheyAre) {
  EXPECT_EQ(f16_to_f32(0x7c00), kInfinity);
  EXPECT_EQ(f16_to_f32(0xfc00), -kInfinity);
  EXPECT_EQ(f32_to_f16(kInfinity), 0x7c00);
  EXPECT_EQ(f32_to_f16(-kInfinity), 0xfc00);
  for (unsigned h = 0x7c01; h < 0x8000U; ++h) {
    const float f = f16_to_f32(static_cast<std::uint16_t>(h));
    ASSERT_TRUE(std::isnan(f)) << h;
    ASSERT_EQ(f32_to_f16(f), h | 0x200U);  // quiet, payload kept
  }
}

TEST(Half, BetweenTwoF16TheNearestIsTakenAndTiesGoToEven) {
  for (unsigned h = 0; h < 0x7bffU; ++h) {
    const double a = f16_value(h);
    const double b = f16_value(h + 1);
    const float middle = static_cast<float>((a + b) / 2);  // exact: one more bit
    ASSERT_EQ(f32_to_f16(middle), (h & 1U) == 0 ? h : h + 1) << h;
    ASSERT_EQ(f32_to_f16(std::nextafterf(middle, 0.0F)), h) << h;
    ASSERT_EQ(f32_to_f16(std::nextafterf(middle, kInfinity)), h + 1) << h;
  }
}

TEST(Half, F16OverflowsFromHalfAStepBeyondTheLargest) {
  EXPECT_EQ(f32_to_f16(65504.0F), 0x7bff);
  EXPECT_EQ(f32_to_f16(std::nextafterf(65520.0F, 0.0F)), 0x7bff);
  EXPECT_EQ(f32_to_f16(65520.0F), 0x7c00);
  EXPECT_EQ(f32_to_f16(-1e30F), 0xfc00);
}

TEST(Half, F32SubnormalsBecomeSignedZeroF16) {
  EXPECT_EQ(f32_to_f16(std::numeric_limits<float>::denorm_min()), 0x0000);
  EXPECT_EQ(f32_to_f16(-std::numeric_limits<float>::denorm_min()), 0x8000);
}

TEST(Half, EveryBf16ComesBack) {
  for (unsigned h = 0; h < 0x10000U; ++h) {
    const float f = bf16_to_f32(static_cast<std::uint16_t>(h));
    const bool nan = (h & 0x7fffU) > 0x7f80U;
    ASSERT_EQ(std::isnan(f), nan) << h;
    ASSERT_EQ(f32_to_bf16(f), nan ? h | 0x40U : h);
  }
}

TEST(Half, Bf16TiesGoToEvenAndOverflowToInfinity) {
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f808000U)), 0x3f80);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f808001U)), 0x3f81);
  EXPECT_EQ(f32_to_bf16(std::bit_cast<float>(0x3f818000U)), 0x3f82);
  EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::max()), 0x7f80);
}

static_assert(f16_to_f32(0x3c00) == 1.0F, "usable in constant expressions");
static_assert(f32_to_f16(1.0F) == 0x3c00);

}  // namespace
}  // namespace runnel

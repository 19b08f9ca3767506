// SPDX-License-Identifier: Apache-2.0
#include "runtime/sampling/token_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "tests/support/random.h"

namespace runnel {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(TokenWeights, ExpIsWithinTwoUlp) {
  constexpr double kTwoUlp = 2.4e-7;
  for (float x = -80.0F; x <= 0.0F; x += 0.0037F) {
    const double exact = std::exp(static_cast<double>(x));
    EXPECT_NEAR(portable_exp(x) / exact, 1.0, kTwoUlp) << x;
  }
  EXPECT_EQ(portable_exp(0.0F), 1.0F);
}

// Any processor and compiler must give these bits: they decide which token is drawn.
TEST(TokenWeights, ExpGivesTheSameBitsEverywhere) {
  std::uint32_t hash = 2166136261U;
  for (int i = 0; i <= 4096; ++i) {
    hash = (hash ^ std::bit_cast<std::uint32_t>(
                       portable_exp(static_cast<float>(i) * (-20.5F / 4096.0F)))) *
           16777619U;
  }
  EXPECT_EQ(hash, 3463967212U);
}

TEST(TokenWeights, LikeliestWeighsOneAndTheRestItsShare) {
  const std::vector<float> logits = {1.0F, 3.0F, 2.0F, -kInf, kNan, 3.0F - 25.0F};
  std::vector<std::uint32_t> weights(logits.size());
  token_weights(logits, 3.0F, 2.0F, weights);
  EXPECT_EQ(weights[1], kWeightOne);
  EXPECT_NEAR(weights[2], kWeightOne * std::exp(-2.0), 40);
  EXPECT_NEAR(weights[0], kWeightOne * std::exp(-4.0), 10);
  EXPECT_EQ(weights[3], 0U);
  EXPECT_EQ(weights[4], 0U);
  EXPECT_EQ(weights[5], 0U);
}

TEST(TokenWeights, PassesGiveTheSameForAnyLengthAndAlignment) {
  test::Random random(7);
  const std::vector<float> all = random.normals(1500, 3.0F);
  for (const std::size_t size : {1U, 3U, 4U, 15U, 16U, 17U, 127U, 128U, 129U, 255U, 1000U, 1499U}) {
    for (const std::size_t offset : {0U, 1U}) {
      const std::span<const float> logits = std::span(all).subspan(offset, size);
      const float max = *std::max_element(logits.begin(), logits.end());
      EXPECT_EQ(max_logit(logits), max);
      std::vector<std::uint32_t> weights(size, 0xdeadbeef);
      token_weights(logits, max, 1.3F, weights);
      std::uint64_t sum = 0;
      std::uint64_t heavy = 0;
      for (std::size_t i = 0; i < size; ++i) {
        const float scaled = (logits[i] - max) * 1.3F;
        const float weight =
            scaled > -20.5F ? portable_exp(scaled) * static_cast<float>(kWeightOne) + 0.5F : 0.0F;
        ASSERT_EQ(weights[i], static_cast<std::uint32_t>(weight)) << i;
        sum += weights[i];
        if (weights[i] >= 1000000) heavy += weights[i];
      }
      EXPECT_EQ(sum_at_least(weights, 1), sum);
      EXPECT_EQ(sum_at_least(weights, 1000000), heavy);
    }
  }
}

TEST(TokenWeights, MaxIgnoresNan) {
  std::vector<float> logits(100, kNan);
  EXPECT_EQ(max_logit(logits), -kInf);
  logits[97] = -5.0F;
  logits[12] = -6.0F;
  EXPECT_EQ(max_logit(logits), -5.0F);
}

TEST(TokenWeights, IndexAtWalksTheLineOfKeptTokens) {
  std::vector<std::uint32_t> weights(300);
  for (std::size_t i = 0; i < weights.size(); ++i)
    weights[i] = static_cast<std::uint32_t>(i * 7919 % 13);
  const std::uint32_t cut = 5;
  std::uint64_t target = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] < cut) continue;
    EXPECT_EQ(index_at(weights, cut, target), i);
    target += weights[i];
    EXPECT_EQ(index_at(weights, cut, target - 1), i);
  }
  EXPECT_EQ(sum_at_least(weights, cut), target);
}

TEST(TokenWeights, NucleusIsTheSmallestSetOfTheLikeliest) {
  test::Random random(3);
  for (int trial = 0; trial < 60; ++trial) {
    // Peaked, flat, and full of ties.
    const float spread = std::array{6.0F, 0.01F, 1.0F}[trial % 3];
    std::vector<float> logits = random.normals(400, spread);
    if (trial % 3 == 2) {
      for (float& x : logits) x = std::round(x);
    }
    std::vector<std::uint32_t> weights(logits.size());
    token_weights(logits, max_logit(logits), 1.0F, weights);
    std::vector<std::uint32_t> sorted = weights;
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    const std::uint64_t total = sum_at_least(weights, 1);
    const std::uint64_t wanted = 1 + random.below(total);

    std::size_t count = 0;
    for (std::uint64_t sum = 0; sum < wanted; ++count) sum += sorted[count];
    const std::uint32_t lightest = sorted[count - 1];
    const auto heavier = static_cast<std::uint64_t>(std::count_if(
        weights.begin(), weights.end(), [&](std::uint32_t w) { return w > lightest; }));

    std::vector<std::uint32_t> scratch(weights.size());
    const NucleusCut cut = nucleus_cut(weights, wanted, scratch);
    EXPECT_EQ(cut.weight, lightest);
    EXPECT_EQ(cut.ties, count - heavier);
  }
}

}  // namespace
}  // namespace runnel

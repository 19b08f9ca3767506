// SPDX-License-Identifier: Apache-2.0
#include "runtime/sampling/logprobs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace runnel {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kTolerance = 1e-6F;  // of a float of size 1 to 10

TEST(Logprobs, AreTheLogarithmOfTheSoftmax) {
  const std::vector<float> logits = {1.0F, 3.0F, -2.0F, 3.0F};
  const double sum = std::exp(1.0) + 2 * std::exp(3.0) + std::exp(-2.0);
  const TokenLogprobs at = token_logprobs(logits, 2, 3);
  EXPECT_EQ(at.chosen.token, 2);
  EXPECT_NEAR(at.chosen.logprob, std::log(std::exp(-2.0) / sum), kTolerance);
  ASSERT_EQ(at.top.size(), 3U);
  EXPECT_EQ(at.top[0].token, 1) << "of equals the lower id first";
  EXPECT_EQ(at.top[1].token, 3);
  EXPECT_EQ(at.top[2].token, 0);
  EXPECT_NEAR(at.top[0].logprob, std::log(std::exp(3.0) / sum), kTolerance);
}

TEST(Logprobs, LargeLogitsDoNotOverflow) {
  const std::vector<float> logits = {30000.0F, 29999.0F};
  EXPECT_NEAR(token_logprobs(logits, 1, 0).chosen.logprob, -1 - std::log1p(std::exp(-1.0)),
              kTolerance);
  EXPECT_TRUE(token_logprobs(logits, 1, 0).top.empty());
}

TEST(Logprobs, NaNCannotComeAndInfinityIsCertain) {
  const TokenLogprobs nan = token_logprobs(std::vector<float>{kNaN, 0.0F, -kInf}, 0, 3);
  EXPECT_EQ(nan.chosen.logprob, -kInf);
  EXPECT_EQ(nan.top[0], (TokenLogprob{1, 0.0F}));
  const TokenLogprobs certain = token_logprobs(std::vector<float>{5.0F, kInf, kInf}, 1, 2);
  EXPECT_EQ(certain.chosen.logprob, 0.0F);
  EXPECT_EQ(certain.top[1].logprob, -kInf);
  const TokenLogprobs none = token_logprobs(std::vector<float>{kNaN, -kInf}, 0, 2);
  EXPECT_EQ(none.top[0].logprob, -kInf);
}

TEST(Logprobs, TheTopIsWhatSortingGives) {
  std::mt19937 random(11);
  std::vector<float> logits(5000);
  for (float& logit : logits) logit = static_cast<float>(random() % 1000) / 100.0F;  // with ties
  std::vector<TokenLogprob> all;
  for (TokenId id = 0; id < 5000; ++id)
    all.push_back({id, token_logprobs(logits, id, 0).chosen.logprob});
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.logprob > b.logprob; });
  all.resize(20);
  EXPECT_EQ(token_logprobs(logits, 0, 20).top, all);
}

TEST(Logprobs, OfADistribution) {
  const std::vector<std::pair<TokenId, double>> drawn = {{3, 0.25}, {8, 0.75}};
  const TokenLogprobs at = token_logprobs(drawn, 3, 5);
  EXPECT_NEAR(at.chosen.logprob, std::log(0.25), kTolerance);
  ASSERT_EQ(at.top.size(), 2U);
  EXPECT_EQ(at.top[0].token, 8);
  EXPECT_EQ(token_logprobs(drawn, 4, 0).chosen.logprob, -kInf);
}

}  // namespace
}  // namespace runnel

// SPDX-License-Identifier: Apache-2.0
#include "runtime/sampling/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "tests/support/random.h"

namespace runnel {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Sampler make(const SamplingOptions& options, std::size_t vocab) {
  Result<Sampler> sampler = Sampler::create(options, static_cast<std::int32_t>(vocab));
  EXPECT_TRUE(sampler) << sampler.error().message;
  return *std::move(sampler);
}

TokenId sample(const SamplingOptions& options, const std::vector<float>& logits,
               const std::vector<TokenId>& recent = {}, std::uint64_t position = 0) {
  const Result<TokenId> token = make(options, logits.size()).sample(logits, recent, position);
  EXPECT_TRUE(token) << token.error().message;
  return token ? *token : -1;
}

// The ids that can be drawn.
std::vector<TokenId> kept(const SamplingOptions& options, const std::vector<float>& logits,
                          const std::vector<TokenId>& recent = {}) {
  std::vector<TokenId> ids;
  const auto tokens = make(options, logits.size()).distribution(logits, recent);
  EXPECT_TRUE(tokens) << tokens.error().message;
  if (!tokens) return ids;
  for (const auto& [id, probability] : *tokens) ids.push_back(id);
  return ids;
}

std::vector<float> logs(std::vector<float> probabilities) {
  for (float& p : probabilities) p = std::log(p);
  return probabilities;
}

TEST(Sampler, GreedyTakesTheLikeliestAndTheLowerIdOfATie) {
  EXPECT_EQ(sample({}, {0.0F, 2.0F, 1.0F, 2.0F}), 1);
  std::vector<float> many(1000, -1.0F);
  many[777] = many[900] = 0.5F;
  EXPECT_EQ(sample({}, many), 777);
}

TEST(Sampler, VanishingTemperatureIsGreedy) {
  SamplingOptions options;
  options.temperature = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(sample(options, {0.0F, 2.0F, 1.0F}), 1);
}

TEST(Sampler, TopKOneIsGreedyAtAnyTemperature) {
  SamplingOptions options;
  options.temperature = 1000.0F;
  options.top_k = 1;
  test::Random random(1);
  for (std::uint64_t i = 0; i < 20; ++i) {
    const std::vector<float> logits = random.normals(3000);
    EXPECT_EQ(sample(options, logits, {}, i), sample({}, logits));
  }
}

TEST(Sampler, SameSeedAndPositionDrawTheSameAndOthersDoNot) {
  SamplingOptions options;
  options.temperature = 5.0F;
  options.seed = 42;
  const std::vector<float> logits = test::Random(2).normals(5000);
  std::map<TokenId, int> by_position;
  std::map<TokenId, int> by_seed;
  for (std::uint64_t i = 0; i < 50; ++i) {
    EXPECT_EQ(sample(options, logits, {}, i), sample(options, logits, {}, i));
    ++by_position[sample(options, logits, {}, i)];
    SamplingOptions other = options;
    other.seed = i;
    ++by_seed[sample(other, logits)];
  }
  EXPECT_GT(by_position.size(), 40U);
  EXPECT_GT(by_seed.size(), 40U);
}

TEST(Sampler, TopKKeepsTheLikeliestAndLowerIdsOfTies) {
  SamplingOptions options;
  options.temperature = 1.0F;
  options.top_k = 3;
  EXPECT_THAT(kept(options, {1.0F, 3.0F, 2.0F, 2.0F, 2.0F, -1.0F}), ElementsAre(1, 2, 3));
  options.top_k = 6;
  EXPECT_EQ(kept(options, {1.0F, 3.0F, 2.0F, 2.0F, 2.0F, -1.0F}).size(), 6U);
  options.top_k = 1000;
  EXPECT_EQ(kept(options, {1.0F, 3.0F, 2.0F}).size(), 3U);
}

TEST(Sampler, TopKAgreesWithSortingForAnyKAndOrder) {
  test::Random random(11);
  for (int trial = 0; trial < 12; ++trial) {
    std::vector<float> logits = random.normals(9000, 2.0F);
    for (float& x : logits) x = std::round(x * 64.0F) / 64.0F;  // ties, also at the edge
    if (trial % 4 == 1) std::sort(logits.begin(), logits.end());
    if (trial % 4 == 2) std::sort(logits.begin(), logits.end(), std::greater<>());
    for (const std::int32_t k : {1, 2, 40, 64, 511, 513, 3000, 8999}) {
      std::vector<TokenId> order(logits.size());
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](TokenId a, TokenId b) {
        return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
      });
      order.resize(static_cast<std::size_t>(k));
      std::sort(order.begin(), order.end());
      SamplingOptions options;
      options.temperature = 10.0F;
      options.top_k = k;
      ASSERT_EQ(kept(options, logits), order) << "k " << k << " trial " << trial;
    }
  }
}

TEST(Sampler, TopPKeepsSmallestSetReachingP) {
  SamplingOptions options;
  options.temperature = 1.0F;
  const std::vector<float> logits = logs({0.1F, 0.5F, 0.15F, 0.25F});
  options.top_p = 0.49F;
  EXPECT_THAT(kept(options, logits), ElementsAre(1));
  options.top_p = 0.7F;
  EXPECT_THAT(kept(options, logits), ElementsAre(1, 3));
  options.top_p = 0.8F;
  EXPECT_THAT(kept(options, logits), ElementsAre(1, 2, 3));
  options.top_p = 1e-9F;
  EXPECT_THAT(kept(options, logits), ElementsAre(1));
}

TEST(Sampler, TopPTakesLowerIdsOfATieAtItsEdge) {
  SamplingOptions options;
  options.temperature = 1.0F;
  options.top_p = 0.45F;
  EXPECT_THAT(kept(options, std::vector<float>(10, 1.0F)), ElementsAre(0, 1, 2, 3, 4));
}

TEST(Sampler, TopPCountsOnlyWhatTopKKept) {
  SamplingOptions options;
  options.temperature = 1.0F;
  options.top_k = 2;
  options.top_p = 0.6F;  // 0.4 is 2/3 of the two kept, so it suffices
  EXPECT_THAT(kept(options, logs({0.2F, 0.4F, 0.2F, 0.2F})), ElementsAre(1));
}

TEST(Sampler, TopPIsAppliedAfterTemperature) {
  SamplingOptions options;
  options.top_p = 0.6F;
  options.temperature = 1.0F;
  EXPECT_THAT(kept(options, logs({0.7F, 0.2F, 0.1F})), ElementsAre(0));
  options.temperature = 4.0F;
  EXPECT_THAT(kept(options, logs({0.7F, 0.2F, 0.1F})), ElementsAre(0, 1));
}

TEST(Sampler, MinPDropsWhatIsLessLikelyThanItsShareOfTheLikeliest) {
  SamplingOptions options;
  options.temperature = 1.0F;
  options.min_p = 0.3F;
  EXPECT_THAT(kept(options, logs({0.5F, 0.14F, 0.16F, 0.2F})), ElementsAre(0, 2, 3));
  options.min_p = 0.999F;
  EXPECT_THAT(kept(options, logs({0.5F, 0.14F, 0.16F, 0.2F})), ElementsAre(0));
}

TEST(Sampler, MinPAndTopPTogetherKeepWhatBothKeep) {
  SamplingOptions options;
  options.temperature = 1.0F;
  options.top_p = 0.95F;
  options.min_p = 0.35F;
  EXPECT_THAT(kept(options, logs({0.5F, 0.14F, 0.16F, 0.2F})), ElementsAre(0, 3));
  options.top_p = 0.5F;
  EXPECT_THAT(kept(options, logs({0.5F, 0.14F, 0.16F, 0.2F})), ElementsAre(0));
}

TEST(Sampler, KeptTokensKeepTheirProportions) {
  SamplingOptions options;
  options.temperature = 1.0F;
  options.top_k = 3;
  constexpr double kRounding = 1e-6;
  const std::vector<float> logits = logs({0.1F, 0.4F, 0.3F, 0.2F});
  const auto tokens = *make(options, logits.size()).distribution(logits, {});
  ASSERT_EQ(tokens.size(), 3U);
  EXPECT_NEAR(tokens[0].second, 0.4 / 0.9, kRounding);
  EXPECT_NEAR(tokens[1].second, 0.3 / 0.9, kRounding);
  EXPECT_NEAR(tokens[2].second, 0.2 / 0.9, kRounding);
}

TEST(Sampler, RepetitionPenaltyDividesPositiveAndMultipliesNegativeLogits) {
  SamplingOptions options;
  options.repetition_penalty = 2.0F;
  EXPECT_EQ(sample(options, {3.0F, 2.0F}, {0}), 1);     // 1.5 < 2
  EXPECT_EQ(sample(options, {3.0F, 1.0F}, {0, 0}), 0);  // once, however often it occurred
  EXPECT_EQ(sample(options, {-1.0F, -1.5F}, {0}), 1);   // -2 < -1.5
}

TEST(Sampler, PresenceCountsOnceAndFrequencyEachTime) {
  SamplingOptions presence;
  presence.presence_penalty = 1.0F;
  EXPECT_EQ(sample(presence, {3.0F, 1.5F}, {0, 0, 0}), 0);
  EXPECT_EQ(sample(presence, {3.0F, 2.5F}, {0}), 1);
  SamplingOptions frequency;
  frequency.frequency_penalty = 1.0F;
  EXPECT_EQ(sample(frequency, {3.0F, 1.5F}, {0}), 0);
  EXPECT_EQ(sample(frequency, {3.0F, 1.5F}, {0, 0}), 1);
}

TEST(Sampler, PenaltiesSeeOnlyTheirWindow) {
  SamplingOptions options;
  options.presence_penalty = 2.0F;
  options.penalty_window = 2;
  EXPECT_EQ(sample(options, {3.0F, 2.0F}, {1, 0, 1, 1}), 0);
  EXPECT_EQ(sample(options, {3.0F, 2.0F}, {1, 0, 0}), 1);
  options.penalty_window = 0;
  EXPECT_EQ(sample(options, {3.0F, 2.0F}, {0}), 0);
}

TEST(Sampler, PenaltiesLeaveNoTraceForTheNextToken) {
  SamplingOptions options;
  options.frequency_penalty = 1.0F;
  Sampler sampler = make(options, 2);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(*sampler.sample(std::vector{3.0F, 1.5F}, std::vector<TokenId>{0, 0}, 0), 1);
    EXPECT_EQ(*sampler.sample(std::vector{3.0F, 1.5F}, std::vector<TokenId>{0}, 0), 0);
  }
}

TEST(Sampler, PenaltiesIgnoreIdsOutsideTheVocabulary) {
  SamplingOptions options;
  options.presence_penalty = 9.0F;
  EXPECT_EQ(sample(options, {3.0F, 2.0F}, {-7, 2, 1000000}), 0);
}

TEST(Sampler, LogitBiasIsAddedBeforeThePenalties) {
  SamplingOptions options;
  options.logit_bias = {{1, 2.0F}};
  EXPECT_EQ(sample(options, {3.0F, 2.0F}), 1);
  options.repetition_penalty = 2.0F;
  // (2 + 2) / 2 = 2; the other order would give 3.
  EXPECT_EQ(sample(options, {2.5F, 2.0F}, {1}), 0);
}

TEST(Sampler, ABiasOfMinusInfinityForbidsAToken) {
  SamplingOptions options;
  options.logit_bias = {{0, -kInf}};
  EXPECT_EQ(sample(options, {3.0F, 2.0F}), 1);
  options.temperature = 100.0F;
  EXPECT_THAT(kept(options, {3.0F, 2.0F, 1.0F}), ElementsAre(1, 2));
}

TEST(Sampler, NanIsNeverChosenAndInfinityAlways) {
  for (const float temperature : {0.0F, 1.0F}) {
    for (const std::int32_t top_k : {0, 2}) {
      SamplingOptions options;
      options.temperature = temperature;
      options.top_k = top_k;
      options.top_p = 0.999999F;
      for (std::uint64_t i = 0; i < 20; ++i) {
        EXPECT_EQ(sample(options, {kNan, -kInf, 1.0F, kNan}, {}, i), 2);
        EXPECT_EQ(sample(options, {9.0F, kInf, kNan, kInf}, {}, i), 1);
      }
    }
  }
}

TEST(Sampler, NothingToChooseIsAnError) {
  for (const float temperature : {0.0F, 1.0F}) {
    SamplingOptions options;
    options.temperature = temperature;
    for (const float value : {kNan, -kInf}) {
      const auto token = make(options, 3).sample(std::vector<float>(3, value), {}, 0);
      ASSERT_FALSE(token);
      EXPECT_THAT(token.error().message, HasSubstr("no token can be chosen"));
    }
  }
}

TEST(Sampler, RefusesLogitsOfAnotherSize) {
  const auto token = make({}, 3).sample(std::vector<float>(4), {}, 0);
  ASSERT_FALSE(token);
  EXPECT_EQ(token.error().code, ErrorCode::invalid_argument);
}

TEST(Sampler, HugeLogitsAndPenaltiesStillGiveAToken) {
  SamplingOptions options;
  options.temperature = 1.0F;
  options.repetition_penalty = 1e-38F;
  options.presence_penalty = -3e38F;
  options.top_p = 0.5F;
  const std::vector<float> logits = {3e38F, -3e38F, 0.0F, 1.0F};
  for (const TokenId recent : {0, 1, 2, 3}) {
    const TokenId token = sample(options, logits, {recent});
    EXPECT_GE(token, 0);
    EXPECT_LT(token, 4);
  }
}

struct BadOption {
  const char* name;
  void (*set)(SamplingOptions&);
};

class SamplingOptionsCheck : public ::testing::TestWithParam<BadOption> {};

TEST_P(SamplingOptionsCheck, NamesTheOptionOutsideItsRange) {
  SamplingOptions options;
  GetParam().set(options);
  const Status status = validate(options);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::invalid_argument);
  EXPECT_THAT(status.error().message, HasSubstr(GetParam().name));
  EXPECT_FALSE(Sampler::create(options, 10));
}

INSTANTIATE_TEST_SUITE_P(
    All, SamplingOptionsCheck,
    ::testing::Values(
        BadOption{"temperature", [](SamplingOptions& o) { o.temperature = -0.1F; }},
        BadOption{"temperature", [](SamplingOptions& o) { o.temperature = kNan; }},
        BadOption{"temperature", [](SamplingOptions& o) { o.temperature = kInf; }},
        BadOption{"top_k", [](SamplingOptions& o) { o.top_k = -1; }},
        BadOption{"top_p", [](SamplingOptions& o) { o.top_p = 0.0F; }},
        BadOption{"top_p", [](SamplingOptions& o) { o.top_p = 1.01F; }},
        BadOption{"top_p", [](SamplingOptions& o) { o.top_p = kNan; }},
        BadOption{"min_p", [](SamplingOptions& o) { o.min_p = 1.0F; }},
        BadOption{"min_p", [](SamplingOptions& o) { o.min_p = -0.1F; }},
        BadOption{"repetition_penalty", [](SamplingOptions& o) { o.repetition_penalty = 0.0F; }},
        BadOption{"repetition_penalty", [](SamplingOptions& o) { o.repetition_penalty = kNan; }},
        BadOption{"presence_penalty", [](SamplingOptions& o) { o.presence_penalty = kInf; }},
        BadOption{"frequency_penalty", [](SamplingOptions& o) { o.frequency_penalty = kNan; }},
        BadOption{"penalty_window", [](SamplingOptions& o) { o.penalty_window = -1; }},
        BadOption{"penalty_window", [](SamplingOptions& o) { o.penalty_window = 1025; }},
        BadOption{"dry_multiplier", [](SamplingOptions& o) { o.dry_multiplier = -0.1F; }},
        BadOption{"dry_multiplier", [](SamplingOptions& o) { o.dry_multiplier = kInf; }},
        BadOption{"dry_base", [](SamplingOptions& o) { o.dry_base = 0.9F; }},
        BadOption{"dry_base", [](SamplingOptions& o) { o.dry_base = kNan; }},
        BadOption{"dry_allowed_length", [](SamplingOptions& o) { o.dry_allowed_length = 0; }},
        BadOption{"dry_range", [](SamplingOptions& o) { o.dry_range = 1025; }},
        BadOption{"dry_breakers",
                  [](SamplingOptions& o) {
                    o.dry_breakers = {"x", ""};
                  }},
        BadOption{"logit_bias", [](SamplingOptions& o) { o.logit_bias[3] = kNan; }}));

TEST(Sampler, RefusesABiasOutsideTheVocabulary) {
  SamplingOptions options;
  options.logit_bias = {{10, 1.0F}};
  const auto sampler = Sampler::create(options, 10);
  ASSERT_FALSE(sampler);
  EXPECT_THAT(sampler.error().message, HasSubstr("token 10"));
}

}  // namespace
}  // namespace runnel

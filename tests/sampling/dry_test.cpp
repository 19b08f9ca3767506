// SPDX-License-Identifier: Apache-2.0
// DRY against its definition, spelled out over all earlier places, and its limits one by one.
#include "runtime/sampling/dry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "runtime/sampling/sampler.h"
#include "tests/support/random.h"

namespace runnel {
namespace {

using Ids = std::vector<TokenId>;
using ::testing::Each;

constexpr std::size_t kVocab = 12;
constexpr TokenId kBreaker = 11;  // says a line end

std::string_view piece(TokenId token) { return token == kBreaker ? ".\n" : "x"; }

SamplingOptions options() {
  SamplingOptions o;
  o.dry_multiplier = 0.5F;
  o.dry_base = 2.0F;
  o.dry_allowed_length = 2;
  return o;
}

/// What each token loses.
std::vector<float> losses(const SamplingOptions& o, const Ids& generated) {
  Dry dry(o, kVocab, piece);
  std::vector<float> logits(kVocab, 0.0F);
  dry.apply(generated, logits);
  for (float& logit : logits) logit = 0.0F - logit;
  return logits;
}

/// The definition: for every token, the longest n such that the last n tokens and this one stand in the range already,
/// without a breaker among the n.
std::vector<float> defined(const SamplingOptions& o, Ids tokens) {
  const auto range = static_cast<std::size_t>(o.dry_range);
  if (tokens.size() > range) tokens.erase(tokens.begin(), tokens.end() - o.dry_range);
  std::map<TokenId, std::size_t> longest;
  for (std::size_t end = 1; end < tokens.size(); ++end) {  // tokens[end] followed tokens[..end)
    std::size_t n = 0;
    while (n < end && tokens[end - 1 - n] == tokens[tokens.size() - 1 - n] &&
           tokens[end - 1 - n] != kBreaker)
      ++n;
    if (tokens[end] != kBreaker) longest[tokens[end]] = std::max(longest[tokens[end]], n);
  }
  std::vector<float> lost(kVocab, 0.0F);
  for (const auto& [token, n] : longest) {
    const auto allowed = static_cast<std::size_t>(o.dry_allowed_length);
    if (n < allowed) continue;
    lost[static_cast<std::size_t>(token)] =
        o.dry_multiplier * std::pow(o.dry_base, static_cast<float>(n - allowed));
  }
  return lost;
}

TEST(Dry, RandomTokensLoseWhatTheDefinitionSays) {
  test::Random random(11);
  for (int round = 0; round < 2000; ++round) {
    SamplingOptions o = options();
    o.dry_allowed_length = 1 + static_cast<std::int32_t>(random.below(4));
    o.dry_range = static_cast<std::int32_t>(random.below(40));
    Ids generated;
    const auto kinds = 2 + random.below(10);  // few kinds repeat often
    const auto count = random.below(60);
    for (std::uint64_t i = 0; i < count; ++i)
      generated.push_back(static_cast<TokenId>(kVocab - 1 - random.below(kinds)));
    EXPECT_EQ(losses(o, generated), defined(o, generated)) << round;
  }
}

TEST(Dry, LengthsGoOnTokenByTokenAsDevicesDoIt) {
  test::Random random(12);
  for (const std::int32_t range : {1, 2, 7, 30}) {
    SamplingOptions o = options();
    o.dry_range = range;
    Dry dry(o, kVocab, piece);
    Ids generated;
    std::vector<std::size_t> lengths(static_cast<std::size_t>(range), 0);
    for (int step = 0; step < 300; ++step) {
      const auto token = static_cast<TokenId>(kVocab - 1 - random.below(3));
      for (std::size_t i = 1; i < lengths.size() && i <= generated.size(); ++i) {
        const bool same = token != kBreaker && generated[generated.size() - i] == token;
        lengths[i] = same ? lengths[i] + 1 : 0;
      }
      generated.push_back(token);
      const std::size_t seen = std::min(lengths.size(), generated.size());
      const std::span<const std::uint16_t> all = dry.lengths(generated);
      ASSERT_EQ(all.size(), lengths.size());
      for (std::size_t i = 1; i < seen; ++i)
        ASSERT_EQ(all[i], std::min(lengths[i], seen - i)) << "step " << step << ", distance " << i;
    }
  }
}

TEST(Dry, LossesByLengthBeginAtTheAllowedOne) {
  const Dry dry(options(), kVocab, piece);
  EXPECT_EQ(dry.losses_by_length().size(), static_cast<std::size_t>(options().dry_range));
  EXPECT_THAT(dry.losses_by_length().first(5),
              ::testing::ElementsAre(0.0F, 0.0F, 0.5F, 1.0F, 2.0F));
}

TEST(Dry, BreakerBitsAreOfTheTokensWithABreaker) {
  EXPECT_THAT(Dry(options(), kVocab, piece).breaker_bits(), ::testing::ElementsAre(1U << kBreaker));
  const auto bits =
      Dry(options(), 70, [](TokenId t) { return t == 64 ? "a:b" : "a"; }).breaker_bits();
  EXPECT_THAT(bits, ::testing::ElementsAre(0U, 0U, 1U));
}

TEST(Dry, ThePenaltyGrowsWithTheRepetition) {
  EXPECT_EQ(losses(options(), {1, 2, 3, 1})[2], 0.0F) << "one token may repeat";
  EXPECT_EQ(losses(options(), {1, 2, 3, 1, 2})[3], 0.5F);
  EXPECT_EQ(losses(options(), {0, 1, 2, 3, 0, 1, 2})[3], 1.0F);
  EXPECT_EQ(losses(options(), {5, 0, 1, 2, 3, 5, 0, 1, 2})[3], 2.0F);
}

TEST(Dry, OverlappingRepetitionsCount) { EXPECT_EQ(losses(options(), {4, 4, 4, 4, 4})[4], 2.0F); }

TEST(Dry, ARepetitionDoesNotReachOverABreaker) {
  EXPECT_THAT(losses(options(), {1, kBreaker, 2, 3, 1, kBreaker, 2}), Each(0.0F));
  EXPECT_EQ(losses(options(), {1, kBreaker, 2, 3, 4, 1, kBreaker, 2, 3})[4], 0.5F);
}

TEST(Dry, ABreakerIsNeverLessLikely) {
  EXPECT_THAT(losses(options(), {1, 2, kBreaker, 1, 2}), Each(0.0F));
}

TEST(Dry, WithoutTextsThereAreNoBreakers) {
  Dry dry(options(), kVocab, {});
  std::vector<float> logits(kVocab, 0.0F);
  dry.apply(Ids{1, 2, kBreaker, 1, 2}, logits);
  EXPECT_EQ(logits[kBreaker], -0.5F);
}

TEST(Dry, SeesItsRangeOnly) {
  SamplingOptions o = options();
  o.dry_range = 5;
  EXPECT_EQ(losses(o, {1, 2, 3, 1, 2})[3], 0.5F);
  EXPECT_THAT(losses(o, {1, 2, 3, 0, 1, 2}), Each(0.0F));
}

TEST(Dry, OffIsNothing) {
  SamplingOptions o = options();
  o.dry_multiplier = 0.0F;
  EXPECT_THAT(losses(o, {1, 2, 3, 1, 2}), Each(0.0F));
}

TEST(Dry, LongRepetitionsStayFinite) {
  SamplingOptions o = options();
  o.dry_multiplier = 3e38F;
  o.dry_base = 3e38F;
  const std::vector<float> lost = losses(o, Ids(1000, 3));
  EXPECT_TRUE(std::isfinite(lost[3]));
  EXPECT_GT(lost[3], 1e29F);
}

TEST(Dry, IdsOutsideTheVocabularyAreNoMatch) {
  EXPECT_THAT(losses(options(), {-1, 99, -1, 99, -1, 99}), Each(0.0F));
}

TEST(Dry, CallsDoNotRememberEachOther) {
  Dry dry(options(), kVocab, piece);
  std::vector<float> first(kVocab, 0.0F), again(kVocab, 0.0F), other(kVocab, 0.0F);
  dry.apply(Ids{1, 2, 3, 1, 2}, first);
  dry.apply(Ids{5, 6, 7}, other);
  EXPECT_THAT(other, Each(0.0F));
  dry.apply(Ids{1, 2, 3, 1, 2}, again);
  EXPECT_EQ(again, first);
}

TEST(Dry, TheSamplerDrawsWithIt) {
  SamplingOptions o = options();
  const std::vector<float> logits = {0.0F, 0.0F, 0.0F, 1.0F, 0.8F, 0.0F,
                                     0.0F, 0.0F, 0.0F, 0.0F, 0.0F, 0.0F};
  auto sampler = Sampler::create(o, kVocab, piece);
  ASSERT_TRUE(sampler);
  EXPECT_EQ(*sampler->sample(logits, Ids{1, 2, 3, 1, 2}, 5), 4);
  EXPECT_EQ(*sampler->sample(logits, Ids{1, 2, 3, 1}, 5), 3);
}

}  // namespace
}  // namespace runnel

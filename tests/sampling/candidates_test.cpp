// SPDX-License-Identifier: Apache-2.0
// Each sampler of the chain against its equation, written again here from probabilities: a million draws by chi-square.
#include "runtime/sampling/candidates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <string>

#include "runtime/sampling/sampler.h"
#include "tests/support/random.h"

namespace runnel {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Probabilities = std::vector<double>;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr std::size_t kVocab = 30;

std::vector<float> some_logits() { return test::Random(5).normals(kVocab, 1.5F); }

/// The text of a token, for banned texts: "<0>", "<1>", …
std::string_view piece(TokenId token) {
  static const std::vector<std::string> kPieces = [] {
    std::vector<std::string> all;
    for (std::size_t i = 0; i < kVocab; ++i) all.push_back("<" + std::to_string(i) + ">");
    return all;
  }();
  return kPieces[static_cast<std::size_t>(token)];
}

Sampler make(const SamplingOptions& options, std::size_t vocab = kVocab) {
  Result<Sampler> sampler = Sampler::create(options, static_cast<std::int32_t>(vocab), piece);
  EXPECT_TRUE(sampler) << sampler.error().message;
  return *std::move(sampler);
}

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

// ---- the equations ----

Probabilities normalised(Probabilities p) {
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& one : p) one /= sum;
  return p;
}

Probabilities softmax(const std::vector<float>& logits, double temperature = 1.0) {
  Probabilities p;
  for (const float x : logits) p.push_back(std::exp(double{x} / temperature));
  return normalised(p);
}

double entropy(const Probabilities& p) {
  double h = 0.0;
  for (const double one : p) h -= one > 0.0 ? one * std::log(one) : 0.0;
  return h;
}

std::vector<std::size_t> by_likelihood(const Probabilities& p) {
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&p](std::size_t a, std::size_t b) { return p[a] > p[b]; });
  return order;
}

Probabilities typical(Probabilities p, double mass) {
  const double h = entropy(p);
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto distance = [&](std::size_t i) { return std::abs(-std::log(p[i]) - h); };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return distance(a) < distance(b); });
  double reached = 0.0;
  for (const std::size_t i : order) {
    const double own = p[i];
    if (reached >= mass) p[i] = 0.0;
    reached += own;
  }
  return normalised(p);
}

// What is left where XTC comes into play.
Probabilities without_top_choices(Probabilities p, double threshold) {
  const std::vector<std::size_t> order = by_likelihood(p);
  std::size_t reach = 0;
  while (reach < order.size() && p[order[reach]] >= threshold) ++reach;
  for (std::size_t i = 0; i + 1 < reach; ++i) p[order[i]] = 0.0;
  return normalised(p);
}

Probabilities top_n_sigma(const std::vector<float>& logits, double n, double temperature) {
  const double max = *std::max_element(logits.begin(), logits.end());
  const double mean = std::accumulate(logits.begin(), logits.end(), 0.0) / double(logits.size());
  double squares = 0.0;
  for (const float x : logits) squares += (x - mean) * (x - mean);
  const double sigma = std::sqrt(squares / double(logits.size()));
  Probabilities p = softmax(logits, temperature);
  for (std::size_t i = 0; i < p.size(); ++i) p[i] = logits[i] < max - n * sigma ? 0.0 : p[i];
  return normalised(p);
}

Probabilities unsurprising(Probabilities p, double mu) {
  for (double& one : p) one = -std::log2(one) > mu ? 0.0 : one;
  return normalised(p);
}

// ---- the draws ----

/// A million draws at positions from 0, behind the tokens `recent`, against `expected`. The seeds are fixed; for them
/// chi-square stays below a bound that other ones exceed once in ten thousand.
void expect_draws(const SamplingOptions& options, const std::vector<float>& logits,
                  const Probabilities& expected, const std::vector<TokenId>& recent = {}) {
  constexpr int kDraws = 1'000'000;
  Sampler sampler = make(options, logits.size());
  std::vector<int> seen(logits.size());
  for (std::uint64_t i = 0; i < kDraws; ++i)
    ++seen[static_cast<std::size_t>(*sampler.sample(logits, recent, i))];
  double chi_square = 0.0;
  int possible = 0;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    if (expected[i] == 0.0) {
      EXPECT_EQ(seen[i], 0) << "token " << i << " was cut";
      continue;
    }
    const double wanted = kDraws * expected[i];
    chi_square += (seen[i] - wanted) * (seen[i] - wanted) / wanted;
    ++possible;
  }
  ASSERT_GT(possible, 1) << "the case leaves nothing to draw";
  // Wilson and Hilferty's approximation of the quantile 1 - 1e-4.
  const double freedom = possible - 1, ninth = 2.0 / (9.0 * freedom);
  EXPECT_LT(chi_square, freedom * std::pow(1.0 - ninth + 3.719 * std::sqrt(ninth), 3.0));
}

int left(const Probabilities& p) {
  return static_cast<int>(std::count_if(p.begin(), p.end(), [](double one) { return one > 0.0; }));
}

/// The likeliest so many tokens.
Probabilities likeliest(Probabilities p, std::size_t count) {
  const std::vector<std::size_t> order = by_likelihood(p);
  for (std::size_t i = count; i < order.size(); ++i) p[order[i]] = 0.0;
  return normalised(p);
}

TEST(ChainDraws, TemperatureIsItsEquation) {
  const std::vector<float> logits = some_logits();
  expect_draws({.temperature = 0.8F, .seed = 9}, logits, softmax(logits, 0.8));
}

TEST(ChainDraws, TopKIsItsEquation) {
  const std::vector<float> logits = some_logits();
  expect_draws({.temperature = 1.2F, .top_k = 7, .seed = 20}, logits,
               likeliest(softmax(logits, 1.2), 7));
}

TEST(ChainDraws, TopPIsItsEquation) {
  const std::vector<float> logits = some_logits();
  const Probabilities p = softmax(logits);
  const std::vector<std::size_t> order = by_likelihood(p);
  std::size_t count = 0;
  for (double reached = 0.0; reached < 0.7; ++count) reached += p[order[count]];
  ASSERT_LT(count, kVocab);
  expect_draws({.temperature = 1.0F, .top_p = 0.7F, .seed = 21}, logits, likeliest(p, count));
}

TEST(ChainDraws, MinPIsItsEquation) {
  const std::vector<float> logits = some_logits();
  Probabilities expected = softmax(logits);
  const double least = 0.15 * *std::max_element(expected.begin(), expected.end());
  for (double& one : expected) one = one < least ? 0.0 : one;
  ASSERT_LT(left(expected), static_cast<int>(kVocab));
  expect_draws({.temperature = 1.0F, .min_p = 0.15F, .seed = 22}, logits, normalised(expected));
}

// Keskar et al. for the repetition penalty; OpenAI's API for the other two.
TEST(ChainDraws, PenaltiesAreTheirEquations) {
  const std::vector<float> logits = some_logits();
  const std::vector<TokenId> recent = {3, 8, 3, 11, 3, 20};
  std::vector<float> lowered = logits;
  for (const TokenId token : std::set<TokenId>(recent.begin(), recent.end())) {
    float& logit = lowered[static_cast<std::size_t>(token)];
    logit = logit > 0.0F ? logit / 1.3F : logit * 1.3F;
    logit -= 0.4F + 0.2F * static_cast<float>(std::count(recent.begin(), recent.end(), token));
  }
  expect_draws({.temperature = 1.0F,
                .repetition_penalty = 1.3F,
                .presence_penalty = 0.4F,
                .frequency_penalty = 0.2F,
                .seed = 23},
               logits, softmax(lowered), recent);
}

// Behind 5 6 7 comes what would go on with a repetition of three tokens: 8, at the cost of 0.8 * 1.75^(3 - 2).
TEST(ChainDraws, DryIsItsEquation) {
  const std::vector<float> logits = some_logits();
  std::vector<float> lowered = logits;
  lowered[8] -= 0.8F * 1.75F;
  expect_draws({.temperature = 1.0F, .dry_multiplier = 0.8F, .seed = 24}, logits, softmax(lowered),
               {5, 6, 7, 8, 1, 5, 6, 7});
}

TEST(ChainDraws, ForbiddenTokensLeaveTheOthersTheirShares) {
  const std::vector<float> logits = some_logits();
  Probabilities expected = softmax(logits);
  expected[8] = 0.0;   // 6 7 8 came
  expected[12] = 0.0;  // banned by itself
  expected[13] = 0.0;  // behind 7
  expect_draws(
      {.temperature = 1.0F, .seed = 25, .no_repeat_ngram = 3, .banned_texts = {"<12>", "<7><13>"}},
      logits, normalised(expected), {6, 7, 8, 1, 6, 7});
}

TEST(ChainDraws, TypicalIsItsEquation) {
  const std::vector<float> logits = some_logits();
  const Probabilities expected = typical(softmax(logits, 0.8), 0.6);
  ASSERT_LT(left(expected), 25);
  expect_draws({.temperature = 0.8F, .seed = 1, .typical_p = 0.6F}, logits, expected);
}

TEST(ChainDraws, TypicalMayLeaveOutTheLikeliest) {
  const Probabilities p = {0.4, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1};
  const std::vector<float> logits = logs({0.4F, 0.1F, 0.1F, 0.1F, 0.1F, 0.1F, 0.1F});
  const Probabilities expected = typical(p, 0.35);
  ASSERT_EQ(expected[0], 0.0);
  EXPECT_THAT(kept({.temperature = 1.0F, .typical_p = 0.35F}, logits), ElementsAre(1, 2, 3, 4));
}

TEST(ChainDraws, XtcIsItsEquation) {
  const std::vector<float> logits = some_logits();
  const Probabilities all = softmax(logits);
  const Probabilities cut = without_top_choices(all, 0.08);
  ASSERT_LT(left(cut), left(all));
  Probabilities expected(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) expected[i] = 0.7 * all[i] + 0.3 * cut[i];
  expect_draws({.temperature = 1.0F, .seed = 2, .xtc_probability = 0.3F, .xtc_threshold = 0.08F},
               logits, expected);
}

TEST(ChainDraws, XtcLeavesTheLeastLikelyOfTheTopChoices) {
  const std::vector<float> logits = logs({0.2F, 0.45F, 0.3F, 0.05F});
  SamplingOptions options{.temperature = 1.0F, .xtc_probability = 1.0F, .xtc_threshold = 0.25F};
  EXPECT_THAT(kept(options, logits), ElementsAre(0, 2, 3));
  options.xtc_threshold = 0.4F;
  EXPECT_THAT(kept(options, logits), ElementsAre(0, 1, 2, 3)) << "one top choice stays";
}

TEST(ChainDraws, TopNSigmaIsItsEquation) {
  const std::vector<float> logits = some_logits();
  const Probabilities expected = top_n_sigma(logits, 1.2, 1.5);
  ASSERT_LT(left(expected), 25);
  expect_draws({.temperature = 1.5F, .seed = 3, .top_n_sigma = 1.2F}, logits, expected);
}

TEST(ChainDraws, TopNSigmaKeepsTheSameAtAnyTemperature) {
  const std::vector<float> logits = test::Random(8).normals(5000, 2.0F);
  const auto cold = kept({.temperature = 0.5F, .top_n_sigma = 1.0F}, logits);
  EXPECT_EQ(kept({.temperature = 1.5F, .top_n_sigma = 1.0F}, logits), cold);
  EXPECT_LT(cold.size(), logits.size());
}

TEST(ChainDraws, TopNSigmaDoesNotCountForbiddenTokens) {
  std::vector<float> logits = some_logits();
  const auto without = kept({.temperature = 1.0F, .top_n_sigma = 1.0F}, logits);
  logits.insert(logits.end(), {-kInf, kNan, -kInf});
  EXPECT_EQ(kept({.temperature = 1.0F, .top_n_sigma = 1.0F}, logits), without);
}

TEST(ChainDraws, DynamicTemperatureIsItsEquation) {
  const std::vector<float> logits = some_logits();
  const double share = entropy(softmax(logits)) / std::log(double(kVocab));
  const double t = 0.4 + (1.6 - 0.4) * std::pow(share, 1.5);
  expect_draws({.temperature = 1.0F, .seed = 4, .dynatemp_range = 0.6F, .dynatemp_exponent = 1.5F},
               logits, softmax(logits, t));
}

TEST(ChainDraws, DynamicTemperatureSeesWhatIsLeft) {
  const std::vector<float> logits = some_logits();
  const Probabilities all = softmax(logits);
  const std::vector<std::size_t> order = by_likelihood(all);
  std::vector<float> best;
  for (std::size_t i = 0; i < 5; ++i) best.push_back(logits[order[i]]);
  const double share = entropy(softmax(best)) / std::log(5.0);
  const Probabilities five = softmax(best, 2.0 * share);  // from 0 to 2
  Probabilities expected(all.size());
  for (std::size_t i = 0; i < 5; ++i) expected[order[i]] = five[i];
  expect_draws({.temperature = 0.5F,
                .top_k = 5,
                .seed = 5,
                .dynatemp_range = 1.5F,
                .order = {ChainSampler::top_k, ChainSampler::temperature}},
               logits, expected);
}

TEST(ChainDraws, MirostatCutsByItsEquation) {
  const std::vector<float> logits = some_logits();
  const Probabilities expected = unsurprising(softmax(logits, 0.9), 2 * 2.1);
  ASSERT_LT(left(expected), 25);
  expect_draws({.temperature = 0.9F, .seed = 6, .mirostat = 2, .mirostat_tau = 2.1F}, logits,
               expected);
}

TEST(ChainDraws, MirostatFollowsTheSurprise) {
  constexpr float kTau = 3.0F, kEta = 0.2F;
  constexpr double kTolerance = 1e-4;
  const std::vector<float> logits = test::Random(7).normals(500, 1.5F);
  const Probabilities p = softmax(logits);
  Sampler sampler = make(
      {.temperature = 1.0F, .seed = 7, .mirostat = 2, .mirostat_tau = kTau, .mirostat_eta = kEta},
      logits.size());
  double mu = 2.0 * double{kTau}, surprises = 0.0;
  constexpr int kTokens = 4000;
  for (std::uint64_t i = 0; i < kTokens; ++i) {
    ASSERT_NEAR(*sampler.mirostat_mu(), mu, kTolerance * double(i + 1)) << "token " << i;
    mu = double{*sampler.mirostat_mu()};
    const auto token = static_cast<std::size_t>(*sampler.sample(logits, {}, i));
    sampler.took();
    const double surprise = -std::log2(unsurprising(p, mu)[token]);
    surprises += surprise;
    mu -= double{kEta} * (surprise - double{kTau});
  }
  EXPECT_NEAR(surprises / kTokens, kTau, 0.05);
}

TEST(ChainDraws, MirostatTakesThePlaceOfOtherCuts) {
  const std::vector<float> logits = some_logits();
  SamplingOptions options{.temperature = 1.0F, .mirostat = 2, .mirostat_tau = 2.0F};
  const auto alone = kept(options, logits);
  options.top_k = 2;
  options.top_p = 0.1F;
  options.min_p = 0.9F;
  options.typical_p = 0.1F;
  options.top_n_sigma = 0.01F;
  EXPECT_EQ(kept(options, logits), alone);
  EXPECT_GT(alone.size(), 2U);
}

TEST(ChainDraws, MirostatKeepsTheLikeliestAtLeast) {
  EXPECT_THAT(
      kept({.temperature = 1.0F, .mirostat = 2, .mirostat_tau = 0.0F}, {0.0F, 1.0F, 0.5F, 0.0F}),
      ElementsAre(1));
}

TEST(ChainDraws, NeighboursOfTheUsualOrderDrawTheSameTokens) {
  // Top-k and temperature change places without changing what is left, so the chain must draw what the usual passes do.
  const std::vector<float> logits = test::Random(9).normals(3000, 2.5F);
  const std::vector<TokenId> recent = {5, 9, 5, 9, 5};
  for (const float top_p : {1.0F, 0.8F}) {
    SamplingOptions options{.temperature = 1.3F,
                            .top_k = 200,
                            .top_p = top_p,
                            .min_p = 0.02F,
                            .repetition_penalty = 1.2F,
                            .dry_multiplier = 0.8F,
                            .seed = 10};
    SamplingOptions other = options;
    other.order = {ChainSampler::penalties,   ChainSampler::dry,   ChainSampler::top_k,
                   ChainSampler::temperature, ChainSampler::top_p, ChainSampler::min_p};
    Sampler usual = make(options, logits.size()), chain = make(other, logits.size());
    for (std::uint64_t i = 0; i < 500; ++i)
      ASSERT_EQ(*usual.sample(logits, recent, i), *chain.sample(logits, recent, i)) << i;
  }
}

TEST(ChainDraws, OrderSaysWhatASamplerSees) {
  // At temperature 3 the nucleus of 0.7 is three tokens; at 1, before it, two.
  const std::vector<float> logits = logs({0.5F, 0.25F, 0.15F, 0.1F});
  SamplingOptions options{.temperature = 3.0F, .top_p = 0.7F};
  EXPECT_THAT(kept(options, logits), ElementsAre(0, 1, 2));
  options.order = {ChainSampler::top_p, ChainSampler::temperature};
  EXPECT_THAT(kept(options, logits), ElementsAre(0, 1));
  options.order = {ChainSampler::temperature};
  EXPECT_THAT(kept(options, logits), ElementsAre(0, 1, 2, 3)) << "top-p is not in the chain";
}

TEST(ChainDraws, PenaltiesAfterTemperatureSeeDividedLogits) {
  // 4 / 2 - 1.5 = 0.5 against 1: token 1 is likelier; with penalties first it would be (4 - 1.5) / 2 = 1.25.
  SamplingOptions options{.temperature = 2.0F,
                          .presence_penalty = 1.5F,
                          .order = {ChainSampler::temperature, ChainSampler::penalties}};
  const auto tokens =
      make(options, 2).distribution(std::vector<float>{4.0F, 2.0F}, std::vector<TokenId>{0});
  ASSERT_TRUE(tokens);
  EXPECT_NEAR((*tokens)[0].second, 1.0 / (1.0 + std::exp(0.5)), 1e-6);
}

TEST(ChainDraws, GreedyTakesTheLikeliestThatIsLeft) {
  SamplingOptions options{.xtc_probability = 1.0F,
                          .xtc_threshold = 0.1F,
                          .order = {ChainSampler::xtc, ChainSampler::temperature}};
  EXPECT_THAT(kept(options, logs({0.5F, 0.3F, 0.15F, 0.05F})), ElementsAre(2));
}

TEST(ChainDraws, TakeNanInfinityAndNothing) {
  const SamplingOptions all{.temperature = 1.0F,
                            .top_k = 3,
                            .top_p = 0.9F,
                            .min_p = 0.01F,
                            .top_n_sigma = 2.0F,
                            .typical_p = 0.9F,
                            .xtc_probability = 1.0F,
                            .xtc_threshold = 0.0F,
                            .dynatemp_range = 0.5F};
  EXPECT_THAT(kept(all, {kNan, 1.0F, -kInf, kNan}), ElementsAre(1));
  EXPECT_THAT(kept(all, {0.0F, kInf, kNan, kInf}), ElementsAre(1));
  EXPECT_EQ(kept(all, {3e38F, -3e38F, 0.0F}).size(), 1U);
  const auto none = make(all, 2).sample(std::vector<float>{kNan, -kInf}, {}, 0);
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("no token can be chosen: all 2 logits"));
}

TEST(ChainDraws, LogitBiasForbidsAndForces) {
  const std::vector<float> logits = some_logits();
  const SamplingOptions options{
      .temperature = 1.0F, .logit_bias = {{3, -kInf}, {4, 0.5F}}, .seed = 12};
  Probabilities expected = softmax(logits);
  expected[3] = 0.0;
  expected[4] *= std::exp(0.5);
  expect_draws(options, logits, normalised(expected));
}

}  // namespace
}  // namespace runnel

// SPDX-License-Identifier: Apache-2.0
// The sampling kernel, thread by thread on the host, against the sampler of the host: the same
// token, always. Needs no GPU.
#include "tests/cuda/simt.h"
// After the emulator, whose functions it calls.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <set>

#include "cuda/device/sample/chain.cuh"
#include "runtime/backend/cuda/sample_setup.h"
#include "runtime/sampling/sampler.h"
#include "tests/support/host_draws.h"
#include "tests/support/random.h"

namespace runnel::test {
namespace {

using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Lt;

constexpr float kInf = std::numeric_limits<float>::infinity();

/// Every seventh token has an "x".
std::string_view piece(TokenId token) { return token % 7 == 3 ? "ax" : "a"; }

/// A sampler of the device whose memory is the host's.
class Emulated {
 public:
  Emulated(const SamplingOptions& options, std::int32_t vocab, std::span<const TokenId> recent,
           std::uint64_t position, int threads)
      : setup_(cuda::make_sample_setup(options, vocab, recent, {.piece = piece})),
        threads_(threads) {
    dry_longest_.assign(static_cast<std::size_t>(vocab), 0);
    dry_kept_.assign(setup_.dry_recent.size(), NAN);
    adjusted_.assign(static_cast<std::size_t>(vocab), NAN);
    weights_.resize(static_cast<std::size_t>(vocab));
    segment_.position = position;
    sample_ = setup_.sample;
    sample_.bias_ids = setup_.bias_ids.data();
    sample_.bias_values = setup_.bias_values.data();
    sample_.recent = setup_.recent.data();
    sample_.recent_at = &setup_.recent_at;
    sample_.counts = setup_.counts.data();
    sample_.dry_losses = setup_.dry_losses.data();
    sample_.dry_breakers = setup_.breakers.data();
    sample_.dry_recent = setup_.dry_recent.data();
    sample_.dry_recent_at = &setup_.dry_recent_at;
    sample_.dry_lengths = setup_.dry_lengths.data();
    sample_.dry_longest = dry_longest_.data();
    sample_.dry_kept = dry_kept_.data();
    sample_.adjusted = adjusted_.data();
    sample_.weights = weights_.data();
    sample_.next.token = &token_;
    sample_.next.segment = &segment_;
    sample_.next.drawn = &drawn_;
  }

  /// The token after a step that left `logits`; kNoToken without one.
  std::uint32_t draw(const std::vector<float>& logits, unsigned seed) {
    std::vector<float> own = logits;
    sample_.logits = own.data();
    ++sample_.next.ticket;
    std::ranges::fill(weights_, kNoWeight);
    simt::Grid grid(1, threads_, sizeof(cuda::SampleShared), seed,
                    [this] { cuda::Sampling(sample_, threads_).run(); });
    EXPECT_TRUE(grid.run()) << "stuck";
    EXPECT_EQ(drawn_ >> 32, sample_.next.ticket);
    EXPECT_EQ(std::memcmp(own.data(), logits.data(), own.size() * sizeof(float)), 0)
        << "the logits are not what they were";
    const auto token = static_cast<std::uint32_t>(drawn_);
    EXPECT_EQ(static_cast<std::uint32_t>(token_), token == cuda::kNoToken ? 0U : token);
    return token;
  }
  std::uint64_t position() const { return segment_.position; }
  /// Whether the last draw weighed the whole vocabulary, as none does from a list.
  bool weighed_all() const { return weights_[0] != kNoWeight; }

 private:
  static constexpr std::uint32_t kNoWeight = 0xA5A5A5A5U;  // more than any

  cuda::SampleSetup setup_;
  int threads_;
  std::vector<float> adjusted_, dry_kept_;
  std::vector<std::uint32_t> weights_, dry_longest_;
  cuda::Segment segment_;
  std::int32_t token_ = -1;
  std::uint64_t drawn_ = 0;
  cuda::Sample sample_;
};

std::vector<float> random_logits(Random& random, std::int32_t vocab) {
  std::vector<float> logits(static_cast<std::size_t>(vocab));
  const float scale = one_of(random, {0.0F, 0.5F, 3.0F, 10.0F, 200.0F});
  const float grain = one_of(random, {0.0F, 0.0F, 0.25F, 1.0F});    // ties
  const std::uint32_t odd = one_of(random, {0U, 0U, 0U, 1U, 30U});  // of 100, not ordinary
  for (float& v : logits) {
    v = scale * random.normal();
    if (grain > 0.0F) v = std::round(v / grain) * grain;
    if (random.below(100) < odd) v = one_of(random, {NAN, -kInf, -kInf, -0.0F, 0.0F, 1e-40F});
  }
  if (random.below(40) == 0) logits[random.below(static_cast<std::uint32_t>(vocab))] = kInf;
  if (random.below(60) == 0) std::fill(logits.begin(), logits.end(), one_of(random, {NAN, -kInf}));
  return logits;
}

/// Some steps of one generation on both.
/// @param weighed_all  counts the draws that weigh the whole vocabulary
void compare(Random& random, const SamplingOptions& options, std::int32_t vocab, int threads,
             int steps, int* weighed_all = nullptr) {
  const std::int32_t kinds = random.below(2) == 0 ? std::min(vocab, 3) : vocab;  // few repeat often
  std::vector<TokenId> recent =
      random.tokens(1 + random.below(random.below(4) == 0 ? 1500 : 20), kinds);
  std::uint64_t position = recent.size() + (random.below(3) == 0 ? 0xFFFFFFF0ULL : 0ULL);
  auto sampler = Sampler::create(options, vocab, piece);
  ASSERT_TRUE(sampler.has_value());
  // The device consumes the last of them in its first step.
  Emulated device(options, vocab, recent, position - 1, threads);
  for (int step = 0; step < steps; ++step) {
    const std::vector<float> logits = random_logits(random, vocab);
    const auto expected = sampler->sample(logits, recent, position);
    const std::uint32_t token = device.draw(logits, static_cast<unsigned>(step));
    ASSERT_EQ(token, expected ? static_cast<std::uint32_t>(*expected) : cuda::kNoToken)
        << "step " << step << " of " << vocab << " tokens, temperature " << options.temperature
        << ", top_k " << options.top_k << ", top_p " << options.top_p << ", min_p " << options.min_p
        << ", top_n_sigma " << options.top_n_sigma << ", XTC " << options.xtc_probability
        << " from " << options.xtc_threshold << ", window " << options.penalty_window << ", DRY "
        << options.dry_multiplier << " * " << options.dry_base << "^(n - "
        << options.dry_allowed_length << ") over " << options.dry_range;
    if (weighed_all != nullptr && device.weighed_all()) ++*weighed_all;
    ASSERT_EQ(device.position(), position);
    recent.push_back(expected ? *expected : 0);
    ++position;
  }
}

TEST(SampleEmulated, TheFirstOfTheLargestLogitsIsTheLargestChoice) {
  EXPECT_EQ(cuda::choice_of(NAN, 3), 0U);
  EXPECT_EQ(cuda::choice_of(-kInf, 3), 0U);
  EXPECT_GT(cuda::choice_of(1.0F, 5), cuda::choice_of(0.5F, 1));
  EXPECT_GT(cuda::choice_of(-1.0F, 5), cuda::choice_of(-2.0F, 1));
  EXPECT_GT(cuda::choice_of(1.0F, 4), cuda::choice_of(1.0F, 5));
  EXPECT_EQ(cuda::choice_of(0.0F, 4), cuda::choice_of(-0.0F, 4));
  EXPECT_EQ(cuda::chosen_token(cuda::choice_of(-3.0F, 65535)), 65535U);
}

TEST(SampleEmulated, DrawsTheTokenOfTheHost) {
  Random random(71);
  for (int i = 0; i < 700; ++i) {
    const std::int32_t vocab = one_of(random, {1, 2, 31, 32, 33, 64, 100, 257, 600});
    compare(random, random_chain(random, vocab), vocab, 64, 4);
    if (HasFatalFailure()) FAIL() << "case " << i;
  }
}

TEST(SampleEmulated, DrawsTheTokenOfTheHostFromWideVocabularies) {
  Random random(72);
  for (int i = 0; i < 60; ++i) {
    const std::int32_t vocab = one_of(random, {2048, 5000, 12001});
    compare(random, random_chain(random, vocab), vocab, one_of(random, {128, 256}), 2);
    if (HasFatalFailure()) FAIL() << "case " << i;
  }
}

enum class Way : std::uint8_t { any, list, vocabulary };

/// Draws at positions from 0, which must be the host's, and from a list or not; the different ones.
std::set<std::uint32_t> expect_draws_of_host(const SamplingOptions& options,
                                             const std::vector<float>& logits, Way way = Way::any) {
  constexpr std::uint64_t kDraws = 24;
  const auto vocab = static_cast<std::int32_t>(logits.size());
  auto sampler = Sampler::create(options, vocab);
  const std::vector<TokenId> recent = {0};
  Emulated device(options, vocab, recent, 0, 64);
  std::set<std::uint32_t> drawn;
  for (std::uint64_t i = 1; i <= kDraws && sampler; ++i) {
    const auto expected = sampler->sample(logits, {}, i);
    EXPECT_TRUE(expected);
    if (!expected) break;
    const std::uint32_t token = device.draw(logits, static_cast<unsigned>(i));
    EXPECT_EQ(token, static_cast<std::uint32_t>(*expected)) << "position " << i;
    if (way != Way::any) {
      EXPECT_EQ(device.weighed_all(), way == Way::vocabulary);
    }
    drawn.insert(token);
  }
  return drawn;
}

std::vector<float> logs(std::vector<float> probabilities) {
  for (float& p : probabilities) p = std::log(p);
  return probabilities;
}

TEST(SampleEmulated, XtcOfProbabilityOneLeavesTheLeastLikelyTopChoice) {
  const std::vector<float> logits = logs({0.2F, 0.45F, 0.3F, 0.05F});
  SamplingOptions o{.temperature = 1.0F, .xtc_probability = 1.0F, .xtc_threshold = 0.18F};
  EXPECT_THAT(expect_draws_of_host(o, logits), ElementsAre(0U, 3U));
  o.min_p = 0.3F;  // by the list
  EXPECT_THAT(expect_draws_of_host(o, logits), ElementsAre(0U));
  o.xtc_threshold = 0.51F;  // never two
  EXPECT_THAT(expect_draws_of_host(o, logits), ElementsAre(0U, 1U, 2U));
  o.xtc_threshold = 0.18F;
  o.xtc_probability = 0.0F;
  EXPECT_THAT(expect_draws_of_host(o, logits), ElementsAre(0U, 1U, 2U));
}

TEST(SampleEmulated, XtcOfEqualTokensLeavesTheLast) {
  const SamplingOptions o{.temperature = 1.0F, .xtc_probability = 1.0F, .xtc_threshold = 0.0F};
  EXPECT_THAT(expect_draws_of_host(o, std::vector<float>(100, 0.5F)), ElementsAre(99U));
  EXPECT_THAT(expect_draws_of_host(o, {NAN, 2.0F, -kInf}), ElementsAre(1U));
  SamplingOptions halves = o;
  halves.xtc_threshold = 0.5F;
  EXPECT_THAT(expect_draws_of_host(halves, {1.0F, 1.0F}), ElementsAre(1U));
}

TEST(SampleEmulated, TopNSigmaCutsWithForbiddenTokensLeftOut) {
  const SamplingOptions o{.temperature = 3.0F, .top_n_sigma = 1.0F};
  // sigma of {2, 1, 0, -1} is 1.118
  EXPECT_THAT(expect_draws_of_host(o, {NAN, 2.0F, -kInf, 1.0F, 0.0F, -1.0F}), ElementsAre(1U, 3U));
  // Sigma 0, all equal.
  EXPECT_EQ(expect_draws_of_host(o, std::vector<float>(5, -7.0F)).size(), 5U);
  EXPECT_THAT(expect_draws_of_host(o, {3e38F, -3e38F, 0.0F}), ElementsAre(0U));
}

TEST(SampleEmulated, TopKOfEqualLogitsLeavesTheFirst) {
  SamplingOptions o{.temperature = 1.0F, .top_k = 7};
  for (const float top_p : {1.0F, 0.7F}) {
    o.top_p = top_p;
    const std::uint32_t left = top_p < 1.0F ? 5 : 7;
    for (const auto& [vocab, way] : {std::pair<std::size_t, Way>{601, Way::list},
                                     {1024, Way::list},
                                     {1025, Way::vocabulary},
                                     {3000, Way::vocabulary}}) {
      const auto drawn = expect_draws_of_host(o, std::vector<float>(vocab, -2.5F), way);
      EXPECT_THAT(drawn, Each(Lt(left))) << vocab;
      EXPECT_GT(drawn.size(), 2U);
    }
  }
  // A few that are larger, behind some of those at the edge.
  std::vector<float> logits(900, 0.0F);
  logits[450] = logits[899] = 0.5F;
  o.top_p = 1.0F;
  o.top_k = 3;
  EXPECT_THAT(expect_draws_of_host(o, logits, Way::list), ElementsAre(0U, 450U, 899U));
  logits[0] = -0.0F;  // is 0
  EXPECT_THAT(expect_draws_of_host(o, logits, Way::list), ElementsAre(0U, 450U, 899U));
}

TEST(SampleEmulated, TopKOfFewerTokensThanItKeepsLeavesThemAll) {
  std::vector<float> logits(5000, -kInf);
  for (std::size_t i = 0; i < logits.size(); i += 3) logits[i] = NAN;
  for (const std::size_t i : {1U, 2U, 70U, 4999U}) logits[i] = -3e38F;
  for (const std::int32_t top_k : {4, 5, 40, 64}) {
    const SamplingOptions o{.temperature = 1.0F, .top_k = top_k};
    EXPECT_THAT(expect_draws_of_host(o, logits, Way::list), ElementsAre(1U, 2U, 70U, 4999U));
  }
  EXPECT_THAT(expect_draws_of_host({.temperature = 1.0F, .top_k = 3}, logits, Way::list),
              ElementsAre(1U, 2U, 70U));
  // Above the number of threads.
  EXPECT_THAT(expect_draws_of_host({.temperature = 1.0F, .top_k = 65}, logits, Way::vocabulary),
              ElementsAre(1U, 2U, 70U, 4999U));
}

TEST(SampleEmulated, TopPOfEqualWeightsLeavesTheFirstWhateverTheirLogits) {
  std::vector<float> logits(800);
  std::iota(logits.begin(), logits.end(), 0.0F);
  // So hot that all weigh the same: of the last 10, which have the largest logits, the first 3.
  const SamplingOptions o{.temperature = 1e20F, .top_k = 10, .top_p = 0.25F};
  EXPECT_THAT(expect_draws_of_host(o, logits, Way::list), ElementsAre(790U, 791U, 792U));
}

TEST(SampleEmulated, TheChainGoesOnFromTheListOfTopK) {
  const std::vector<float> logits = logs({0.02F, 0.3F, 0.05F, 0.4F, 0.03F, 0.2F});
  SamplingOptions o{.temperature = 1.0F, .top_k = 4};
  EXPECT_THAT(expect_draws_of_host(o, logits, Way::list), Contains(2U));
  o.top_p = 0.9F;  // 0.855 of the 0.95 that top-k leaves
  EXPECT_THAT(expect_draws_of_host(o, logits, Way::list), ElementsAre(1U, 3U, 5U));
  o.min_p = 0.6F;
  EXPECT_THAT(expect_draws_of_host(o, logits, Way::list), ElementsAre(1U, 3U));
  o.min_p = 0.0F;
  o.xtc_probability = 1.0F;
  o.xtc_threshold = 0.32F;  // of the 0.9 that top-p leaves
  EXPECT_THAT(expect_draws_of_host(o, logits, Way::list), ElementsAre(1U, 5U));
  o.xtc_probability = 0.0F;
  o.top_p = 1.0F;
  o.top_n_sigma = 0.5F;
  EXPECT_THAT(expect_draws_of_host(o, logits, Way::list), ElementsAre(1U, 3U));
}

/// Logits that depend on the token before, so that greedy text without DRY runs into a loop.
std::vector<float> logits_after(TokenId token, std::int32_t vocab) {
  Random random(1000 + static_cast<std::uint64_t>(token));
  return random.normals(static_cast<std::size_t>(vocab), 1.0F);
}

/// A long greedy text with DRY: on the device, which may be left and begun again from the tokens, as on the host.
void expect_no_loop(SamplingOptions options, bool adjusts) {
  constexpr std::int32_t kVocab = 70;
  constexpr int kSteps = 150;
  if (adjusts) options.logit_bias[5] = 0.25F;
  auto sampler = Sampler::create(options, kVocab, piece);
  auto plain = Sampler::create({.logit_bias = options.logit_bias}, kVocab);
  ASSERT_TRUE(sampler && plain);
  std::vector<TokenId> recent = {17};
  auto device = std::make_unique<Emulated>(options, kVocab, recent, 0, 32);
  int changed = 0;  // by DRY
  for (int step = 0; step < kSteps; ++step) {
    if (step == 60) device = std::make_unique<Emulated>(options, kVocab, recent, step, 32);
    const std::vector<float> logits = logits_after(recent.back(), kVocab);
    const auto expected = sampler->sample(logits, recent, 0);
    ASSERT_TRUE(expected);
    ASSERT_EQ(device->draw(logits, static_cast<unsigned>(step)),
              static_cast<std::uint32_t>(*expected))
        << "step " << step;
    changed += *expected != *plain->sample(logits, recent, 0) ? 1 : 0;
    recent.push_back(*expected);
  }
  EXPECT_GT(changed, 5) << "the case is not one in which DRY matters";
}

TEST(SampleEmulated, DryEndsLoopsAsOnTheHost) {
  for (const bool adjusts : {false, true}) {
    SamplingOptions o;
    o.dry_multiplier = 3.0F;
    expect_no_loop(o, adjusts);
    o.dry_range = 40;  // forgets while it goes
    expect_no_loop(o, adjusts);
    o.dry_allowed_length = 1;
    o.dry_base = 1.0F;
    expect_no_loop(o, adjusts);
    o.dry_breakers = {"x"};
    expect_no_loop(o, adjusts);
  }
}

TEST(SampleEmulated, DrawsTheTokenOfTheHostWithAllThreads) {
  Random random(73);
  for (int i = 0; i < 3; ++i) {
    compare(random, random_chain(random, 49152), 49152, cuda::kSampleThreads, 1);
    if (HasFatalFailure()) FAIL() << "case " << i;
  }
}

/// Random chains that draw, with top-k.
SamplingOptions random_top_k(Random& random, std::int32_t vocab, std::int32_t top_k) {
  SamplingOptions o = random_chain(random, vocab);
  o.top_k = top_k;
  o.temperature = one_of(random, {0.2F, 0.7F, 1.0F, 1.0F, 3.0F, 1e-39F, 1e9F});
  return o;
}

TEST(SampleEmulated, DrawsTheTokenOfTheHostWithTopK) {
  constexpr int kCases = 500, kSteps = 3;
  Random random(74);
  int weighed_all = 0;
  for (int i = 0; i < kCases; ++i) {
    const std::int32_t vocab =
        one_of(random, {1, 3, 31, 33, 64, 101, 257, 600, 1023, 1027, 1500, 4096});
    const std::int32_t top_k = one_of(random, {1, 2, 5, 31, 40, 50, 63, 64, 65, 100, 1000});
    compare(random, random_top_k(random, vocab, top_k), vocab, 64, kSteps, &weighed_all);
    if (HasFatalFailure()) FAIL() << "case " << i;
  }
  EXPECT_GT(weighed_all, kCases * kSteps / 20);
  EXPECT_LT(weighed_all, kCases * kSteps / 2);
}

TEST(SampleEmulated, DrawsTheTokenOfTheHostWithTopKOfAllThreads) {
  constexpr int kCases = 40;
  Random random(75);
  int weighed_all = 0;
  for (int i = 0; i < kCases; ++i) {
    const std::int32_t vocab = one_of(random, {1000, 1023, 1025, 3001, 5000, 20000});
    const std::int32_t top_k =
        one_of(random, {1, 20, 40, 40, 100, 300, 600, 1000, 1023, 1024, 1025, 4000});
    compare(random, random_top_k(random, vocab, top_k), vocab, cuda::kSampleThreads, 1,
            &weighed_all);
    if (HasFatalFailure()) FAIL() << "case " << i;
  }
  EXPECT_GT(weighed_all, kCases / 20);
  EXPECT_LT(weighed_all, kCases / 2);
}

}  // namespace
}  // namespace runnel::test

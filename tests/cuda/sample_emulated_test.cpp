// SPDX-License-Identifier: Apache-2.0
// The sampling kernel, thread by thread on the host, against the sampler of the host: the same
// token, always. Needs no GPU.
#include "tests/cuda/simt.h"
// After the emulator, whose functions it calls.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "cuda/device/sample.cuh"
#include "runtime/backend/cuda/sample_setup.h"
#include "runtime/sampling/sampler.h"
#include "tests/support/random.h"

namespace runnel::test {
namespace {

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
    weights_.assign(static_cast<std::size_t>(vocab), 0xA5A5A5A5U);
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
    sample_.token = &token_;
    sample_.segment = &segment_;
    sample_.drawn = &drawn_;
  }

  /// The token after a step that left `logits`; kNoToken without one.
  std::uint32_t draw(const std::vector<float>& logits, unsigned seed) {
    std::vector<float> own = logits;
    sample_.logits = own.data();
    ++sample_.ticket;
    simt::Grid grid(1, threads_, sizeof(cuda::SampleShared), seed,
                    [this] { cuda::Sampling(sample_, threads_).run(); });
    EXPECT_TRUE(grid.run()) << "stuck";
    EXPECT_EQ(drawn_ >> 32, sample_.ticket);
    EXPECT_EQ(std::memcmp(own.data(), logits.data(), own.size() * sizeof(float)), 0)
        << "the logits are not what they were";
    const auto token = static_cast<std::uint32_t>(drawn_);
    EXPECT_EQ(static_cast<std::uint32_t>(token_), token == cuda::kNoToken ? 0U : token);
    return token;
  }
  std::uint64_t position() const { return segment_.position; }

 private:
  cuda::SampleSetup setup_;
  int threads_;
  std::vector<float> adjusted_, dry_kept_;
  std::vector<std::uint32_t> weights_, dry_longest_;
  cuda::Segment segment_;
  std::int32_t token_ = -1;
  std::uint64_t drawn_ = 0;
  cuda::Sample sample_;
};

template <class T>
T one_of(Random& random, std::initializer_list<T> values) {
  return values.begin()[random.below(static_cast<std::uint32_t>(values.size()))];
}

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

SamplingOptions random_options(Random& random, std::int32_t vocab) {
  SamplingOptions o;
  o.seed = (std::uint64_t{random.below(0x7FFFFFFF)} << 32) | random.below(0x7FFFFFFF);
  o.temperature = one_of(random, {0.0F, 0.2F, 0.7F, 1.0F, 1.0F, 3.0F, 1e-39F});
  o.top_k = one_of(random, {0, 0, 1, 2, 5, 40, vocab - 1, vocab});
  o.top_p = one_of(random, {1.0F, 1.0F, 0.95F, 0.5F, 0.1F, 1e-7F});
  o.min_p = one_of(random, {0.0F, 0.0F, 0.02F, 0.3F, 0.999F});
  if (random.below(2) == 0) {
    o.repetition_penalty = one_of(random, {1.0F, 1.1F, 0.7F, 3.0F});
    o.presence_penalty = one_of(random, {0.0F, 0.3F, -1.0F});
    o.frequency_penalty = one_of(random, {0.0F, 0.11F, -0.4F});
    o.penalty_window = one_of(random, {0, 1, 3, 64, 256, 1024});
  }
  if (random.below(2) == 0) {
    o.dry_multiplier = one_of(random, {0.3F, 2.0F, 50.0F, 1e30F});
    o.dry_base = one_of(random, {1.0F, 1.5F, 2.0F, 3e30F});
    o.dry_allowed_length = one_of(random, {1, 1, 2, 3, 2000});
    o.dry_range = one_of(random, {0, 1, 2, 5, 33, 64, 256, 1024});
    o.dry_breakers = random.below(2) == 0 ? std::vector<std::string>{"x"}
                                          : std::vector<std::string>{"no", "such"};
  }
  if (random.below(3) == 0) {
    for (int i = 0; i < 12; ++i) {
      o.logit_bias[static_cast<TokenId>(random.below(static_cast<std::uint32_t>(vocab)))] =
          one_of(random, {-kInf, 0.0F, 2.5F, -100.0F, 7.0F});
    }
  }
  return o;
}

/// Some steps of one generation on both.
void compare(Random& random, std::int32_t vocab, int threads, int steps) {
  const SamplingOptions options = random_options(random, vocab);
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
        << ", window " << options.penalty_window << ", DRY " << options.dry_multiplier << " * "
        << options.dry_base << "^(n - " << options.dry_allowed_length << ") over "
        << options.dry_range;
    ASSERT_EQ(device.position(), position);
    recent.push_back(expected ? *expected : 0);
    ++position;
  }
}

TEST(SampleEmulated, DrawsTheTokenOfTheHost) {
  Random random(71);
  for (int i = 0; i < 700; ++i) {
    compare(random, one_of(random, {1, 2, 31, 32, 33, 64, 100, 257, 600}), 64, 4);
    if (HasFatalFailure()) FAIL() << "case " << i;
  }
}

TEST(SampleEmulated, DrawsTheTokenOfTheHostFromWideVocabularies) {
  Random random(72);
  for (int i = 0; i < 60; ++i) {
    compare(random, one_of(random, {2048, 5000, 12001}), one_of(random, {128, 256}), 2);
    if (HasFatalFailure()) FAIL() << "case " << i;
  }
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
    compare(random, 49152, cuda::kSampleThreads, 1);
    if (HasFatalFailure()) FAIL() << "case " << i;
  }
}

}  // namespace
}  // namespace runnel::test

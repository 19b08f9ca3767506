// SPDX-License-Identifier: Apache-2.0
// Generation whose tokens the device draws, or finds the candidates of, against the same one token
// at a time through the host's sampler: same tokens, same logits, same state, bit for bit.
#include <cmath>
#include <cstring>
#include <thread>

#include "runnel/generation.h"
#include "runtime/model/config.h"
#include "runtime/sampling/sampler.h"
#include "tests/support/host_draws.h"
#include "tests/support/random.h"
#include "tests/support/random_model.h"
#include "tests/vulkan/vulkan_fixture.h"

namespace runnel::test {
namespace {

using quant::BlockType;

constexpr std::int32_t kVocab = kDrawnVocab;
constexpr std::size_t kTokens = 16;

std::vector<SamplingKind> kinds() {
  std::vector<SamplingKind> all = {
      {"greedy", {}},
      {"top_k", {.temperature = 1.2F, .top_k = 40, .seed = 2}},
      {"penalties",
       {.temperature = 0.9F,
        .top_k = 90,
        .top_p = 0.98F,
        .repetition_penalty = 1.3F,
        .presence_penalty = 0.2F,
        .frequency_penalty = 0.4F,
        .penalty_window = 16,
        .seed = 5}},
      {"greedy_with_penalties", {.repetition_penalty = 1.5F, .penalty_window = 8}},
      {"warm", {.temperature = 0.8F, .seed = 11}},
      {"top_p", {.temperature = 1.0F, .top_p = 0.9F, .seed = 12}},
      {"min_p", {.temperature = 1.5F, .min_p = 0.05F, .seed = 13}},
      {"xtc", {.temperature = 1.3F, .seed = 8, .xtc_probability = 0.5F, .xtc_threshold = 0.001F}},
      {"top_n_sigma", {.temperature = 1.5F, .seed = 9, .top_n_sigma = 1.5F}},
      {"all_cuts",
       {.temperature = 1.4F,
        .top_k = 700,
        .top_p = 0.95F,
        .min_p = 0.01F,
        .seed = 10,
        .top_n_sigma = 3.0F,
        .xtc_probability = 0.5F,
        .xtc_threshold = 0.002F}},
      {"biases",
       {.temperature = 1.0F, .top_k = 7, .logit_bias = {{3, 4.0F}, {4, -50.0F}}, .seed = 6}},
  };
  const SamplingOptions behind_top_k{.temperature = 1.1F,
                                     .top_k = 40,
                                     .seed = 7,
                                     .typical_p = 0.8F,
                                     .xtc_probability = 0.5F,
                                     .xtc_threshold = 0.01F};
  SamplingOptions other_order = behind_top_k;
  other_order.top_n_sigma = 2.0F;
  other_order.dynatemp_range = 0.5F;
  other_order.presence_penalty = 0.5F;
  other_order.order = {ChainSampler::penalties,   ChainSampler::top_k,   ChainSampler::xtc,
                       ChainSampler::top_n_sigma, ChainSampler::typical, ChainSampler::temperature};
  all.push_back({"xtc_and_typical_behind_top_k", behind_top_k});
  SamplingOptions repeating = behind_top_k;
  repeating.repetition_penalty = 1.3F;
  repeating.penalty_window = 8;
  repeating.dry_multiplier = 1.0F;
  repeating.logit_bias = {{3, 4.0F}, {4, -50.0F}};
  all.push_back({"penalties_before_typical", repeating});
  all.push_back({"another_order", other_order});
  for (SamplingKind& kind : kinds_with_dry()) all.push_back(std::move(kind));
  return all;
}

class VulkanSampledSteps : public VulkanTest, public testing::WithParamInterface<SamplingKind> {
 protected:
  static void expect_what_the_host_draws(Backend& device, const RandomModel& model,
                                         const SamplingKind& kind);
};

void VulkanSampledSteps::expect_what_the_host_draws(Backend& device, const RandomModel& model,
                                                    const SamplingKind& kind) {
  const LoadedModel loaded = load_on(device, model, 16);
  Random random(52);
  std::vector<TokenId> recent = random.tokens(12, kVocab);
  auto plain = loaded.state(), drawn = loaded.state(), other = loaded.state();
  const auto one = [&](RecurrentState& state, TokenId token) {
    return loaded.run(state, std::span(&token, 1));
  };
  std::vector<float> logits;
  for (const TokenId token : recent) logits = one(*plain, token), one(*drawn, token);
  const std::vector<TokenId> expected =
      host_draws(loaded, *plain, recent, logits, kind, kTokens + 1);
  ASSERT_EQ(expected.size(), kTokens + 1);
  recent.push_back(expected[0]);
  auto steps = loaded.plan->sampled_steps(*drawn, recent, kind.sampling, kind.piece);
  ASSERT_TRUE(steps && *steps != nullptr);
  ASSERT_TRUE((*steps)->queue());
  for (std::size_t i = 1; i < kTokens; ++i) {
    if (i == 7) one(*other, 7);  // another session on the same buffers
    ASSERT_TRUE((*steps)->queue());
    const auto token = (*steps)->drawn();
    ASSERT_TRUE(token) << token.error().message;
    ASSERT_EQ(*token, expected[i]) << "token " << i;
  }
  std::vector<float> last(kVocab, NAN);
  ASSERT_TRUE((*steps)->logits(last));
  EXPECT_EQ(last, logits);
  EXPECT_EQ(*(*steps)->drawn(), expected.back());
  EXPECT_EQ((*steps)->drawn().error().code, ErrorCode::invalid_argument);  // nothing is queued
  one(*other, 8);
  last.assign(kVocab, NAN);
  ASSERT_TRUE((*steps)->logits(last));  // kept when it gave way
  EXPECT_EQ(last, logits);
  steps->reset();
  EXPECT_EQ(drawn->position(), plain->position());
  EXPECT_EQ(loaded.canonical(*drawn), loaded.canonical(*plain));
}

TEST_P(VulkanSampledSteps, GiveWhatTheHostDraws) {
  expect_what_the_host_draws(*backend(), model_to_draw_from(), GetParam());
}

TEST_P(VulkanSampledSteps, WithTheHeadBehindTheLayersGiveWhatTheHostDraws) {
  for (const bool tied : {true, false}) {
    ModelConfig c = narrow_config(320, 2);
    c.vocab_size = kDrawnVocab;
    const RandomModel model = make_random_model(c,
                                                {.linear = BlockType::q4_0,
                                                 .table = BlockType::q8_0,
                                                 .small = BlockType::f16,
                                                 .tied = tied,
                                                 .gate_bias = true},
                                                77);
    const std::uint32_t groups = vulkan::find_devices().front().software ? 1 : 0;
    SamplingKind kind = GetParam();
    kind.differs = kind.differs && !kind.sampling.logit_bias.empty();
    expect_what_the_host_draws(*backend({.tuning = {.step_groups = groups}}), model, kind);
  }
}

TEST_P(VulkanSampledSteps, GoOnWhereOthersLeftOff) {
  const std::unique_ptr<Backend> device = backend();
  ASSERT_NE(device, nullptr);
  expect_steps_to_go_on(*device, GetParam(), kTokens);
}

INSTANTIATE_TEST_SUITE_P(Kinds, VulkanSampledSteps, testing::ValuesIn(kinds()),
                         [](const auto& each) { return std::string(each.param.name); });

class VulkanSampling : public VulkanTest {
 protected:
  /// The steps' first tokens, against the host on the logits of the same pass.
  void expect_host(const std::vector<float>& head, const SamplingOptions& sampling,
                   std::vector<TokenId> all = {17}) {
    auto device = backend();
    const LoadedModel loaded = load_on(*device, model_with_head(head), 16);
    auto plain = loaded.state(), drawn = loaded.state();
    auto steps = loaded.plan->sampled_steps(*drawn, all, sampling);
    ASSERT_TRUE(steps && *steps != nullptr);
    auto sampler = Sampler::create(sampling, kVocab);
    ASSERT_TRUE(sampler);
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE((*steps)->queue());
      const std::vector<float> logits = loaded.run(*plain, std::span(all).last(1));
      const auto expected = sampler->sample(logits, all, plain->position());
      const auto token = (*steps)->drawn();
      ASSERT_EQ(token.has_value(), expected.has_value()) << "step " << i;
      if (!expected) {
        EXPECT_EQ(token.error().code, expected.error().code);
        EXPECT_EQ(token.error().message, expected.error().message);
        return;
      }
      EXPECT_EQ(*token, *expected) << "step " << i;
      all.push_back(*token);
    }
  }
  /// Each way to draw: the likeliest, by the device's chain with few or all tokens left, by the host behind top-k.
  void expect_host_every_way(const std::vector<float>& head) {
    for (const SamplingOptions& sampling :
         {SamplingOptions{}, top_k_, typical_, SamplingOptions{.temperature = 1.0F, .seed = 1},
          SamplingOptions{.temperature = 1.0F, .top_p = 0.7F, .seed = 2},
          SamplingOptions{.temperature = 1.0F, .min_p = 0.1F, .seed = 3},
          SamplingOptions{.temperature = 1.0F, .seed = 4, .top_n_sigma = 1.0F},
          SamplingOptions{
              .temperature = 1.0F, .seed = 5, .xtc_probability = 1.0F, .xtc_threshold = 0.0F},
          SamplingOptions{.logit_bias = {{9, 2.0F}}}})
      expect_host(head, sampling);
  }
  const SamplingOptions top_k_{.temperature = 1.0F, .top_k = 20, .seed = 9};
  const SamplingOptions typical_{.temperature = 1.0F, .top_k = 20, .seed = 9, .typical_p = 0.9F};
};

TEST_F(VulkanSampling, TiesGoToTheLowestIndex) {
  std::vector<float> head(kVocab, 0.0F);
  for (std::size_t i = 100; i < 2900; i += 7) head[i] = 1.0F;
  for (std::size_t i = 101; i < 2900; i += 11) head[i] = -1.0F;
  expect_host_every_way(head);
}

TEST_F(VulkanSampling, ARowOfEqualLogitsIsReadWhole) {
  expect_host_every_way(std::vector<float>(kVocab, 0.0F));
}

TEST_F(VulkanSampling, NotANumberIsNeverChosen) {
  Random random(8);
  std::vector<float> head = random.normals(kVocab, 1.0F);
  for (std::size_t i = 0; i < kVocab; i += 2) head[i] = NAN;
  expect_host_every_way(head);
  std::fill(head.begin(), head.end(), NAN);
  expect_host_every_way(head);
}

TEST_F(VulkanSampling, ManyRepetitionsLowerWhatTheHostLowers) {
  // After token 1, 511 different ones: more than candidates have room for.
  std::vector<TokenId> all;
  for (TokenId i = 0; i < 511; ++i) all.insert(all.end(), {1, 100 + i});
  all.push_back(1);
  for (SamplingOptions dry : {top_k_, typical_}) {
    dry.dry_multiplier = 2.0F;
    dry.dry_allowed_length = 1;
    Random random(9);
    expect_host(random.normals(kVocab, 1.0F), dry, all);
  }
}

TEST_F(VulkanSampling, AnyChainDrawsTheTokensOfTheHost) {
  expect_any_chain_to_draw_as_the_host(*backend(), 40);
}

TEST_F(VulkanSampling, AnyChainWithMasksDrawsTheTokensOfTheHost) {
  expect_any_masked_chain_to_draw_as_the_host(*backend(), 40);
}

TEST_F(VulkanSampling, StepsWithMasksDrawTheTokensOfTheHost) {
  const auto device = backend();
  const LoadedModel loaded = load_on(*device, model_to_draw_from(), 16);
  for (const SamplingKind& kind : kinds()) {
    expect_masked_steps_to_draw_as_the_host(loaded, kind, kTokens);
    if (HasFailure()) FAIL() << kind.name;
  }
}

TEST_F(VulkanSampling, StepsWithMasksAndTheHeadBehindTheLayersDrawTheTokensOfTheHost) {
  ModelConfig c = narrow_config(320, 2);
  c.vocab_size = kDrawnVocab;
  const RandomModel model = make_random_model(c,
                                              {.linear = BlockType::q4_0,
                                               .table = BlockType::q8_0,
                                               .small = BlockType::f16,
                                               .tied = true,
                                               .gate_bias = true},
                                              77);
  const std::uint32_t groups = vulkan::find_devices().front().software ? 1 : 0;
  const auto device = backend({.tuning = {.step_groups = groups}});
  const LoadedModel loaded = load_on(*device, model, 16);
  for (const SamplingKind& kind : kinds()) {
    expect_masked_steps_to_draw_as_the_host(loaded, kind, 8);
    if (HasFailure()) FAIL() << kind.name;
  }
}

TEST_F(VulkanSampling, AMaskThatDoesNotComeEndsTheDraw) {
  const auto device = backend();
  const LoadedModel loaded = load_on(*device, model_to_draw_from(), 16);
  for (const SamplingOptions& sampling : {SamplingOptions{}, top_k_, typical_})
    expect_missing_masks_to_end(loaded, {"", sampling});
}

TEST_F(VulkanSampling, WhatNeedsWholeRowsIsLeftToTheHost) {
  auto device = backend();
  const LoadedModel loaded = load_on(*device, model_to_draw_from(), 16);
  auto state = loaded.state();
  const std::vector<TokenId> recent = {1};
  SamplingOptions many = typical_, wide = typical_, all = typical_;
  many.top_k = 600;
  wide.repetition_penalty = 2.0F, wide.penalty_window = 1000;
  all.top_k = 0;
  for (const SamplingOptions& sampling : {many, wide, all}) {
    auto steps = loaded.plan->sampled_steps(*state, recent, sampling);
    ASSERT_TRUE(steps);
    EXPECT_EQ(*steps, nullptr);
  }
}

}  // namespace
}  // namespace runnel::test

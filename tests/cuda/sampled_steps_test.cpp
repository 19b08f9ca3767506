// SPDX-License-Identifier: Apache-2.0
// Generation that stays on the device against the same one token at a time through the host: same
// tokens, same logits, same state, bit for bit. Skips without a GPU.
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "runnel/generation.h"
#include "runnel/session.h"
#include "runtime/sampling/sampler.h"
#include "tests/cuda/cuda_backends.h"
#include "tests/support/host_draws.h"
#include "tests/support/loaded_model.h"
#include "tests/support/random.h"
#include "tests/support/random_model.h"

namespace runnel::test {
namespace {

constexpr std::int32_t kVocab = kDrawnVocab;
constexpr std::size_t kTokens = 60;

std::vector<SamplingKind> kinds() {
  std::vector<SamplingKind> all = {
      {"greedy", {}},
      {"warm", {.temperature = 0.8F, .seed = 1}},
      {"top_k", {.temperature = 1.2F, .top_k = 40, .seed = 2}},
      {"top_p", {.temperature = 1.0F, .top_p = 0.9F, .seed = 3}},
      {"min_p", {.temperature = 1.5F, .min_p = 0.05F, .seed = 4}},
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
      {"min_p_and_xtc",
       {.temperature = 1.2F,
        .min_p = 0.05F,
        .seed = 11,
        .xtc_probability = 0.5F,
        .xtc_threshold = 0.002F}},
      {"penalties",
       {.temperature = 0.9F,
        .top_k = 500,
        .top_p = 0.98F,
        .repetition_penalty = 1.3F,
        .presence_penalty = 0.2F,
        .frequency_penalty = 0.4F,
        .penalty_window = 16,
        .seed = 5}},
      {"biases", {.temperature = 1.0F, .logit_bias = {{3, 4.0F}, {4, -50.0F}}, .seed = 6}},
  };
  for (SamplingKind& kind : kinds_with_dry()) all.push_back(std::move(kind));
  return all;
}

class SampledStepsTest : public testing::TestWithParam<SamplingKind> {
 protected:
  void SetUp() override {
    if (cuda::devices().empty()) GTEST_SKIP() << "NO CUDA DEVICE: nothing was checked";
  }
};

TEST_P(SampledStepsTest, GiveWhatTheHostDraws) {
  for (const char* program : {"ops", ""}) {
    const std::unique_ptr<Backend> backend = cuda_backend(program);
    ASSERT_NE(backend, nullptr);
    const LoadedModel loaded = load_on(*backend, model_to_draw_from());
    Random random(52);
    std::vector<TokenId> recent = random.tokens(30, kVocab);
    const auto one_at_a_time = [&](RecurrentState& state, TokenId token) {
      return loaded.run(state, std::span(&token, 1));
    };
    auto plain = loaded.state(), drawn = loaded.state(), other = loaded.state();
    std::vector<float> logits = loaded.run(*plain, recent);
    logits.erase(logits.begin(), logits.end() - kVocab);
    loaded.run(*drawn, recent);
    const std::vector<TokenId> expected =
        host_draws(loaded, *plain, recent, logits, GetParam(), kTokens + 1);
    ASSERT_EQ(expected.size(), kTokens + 1);
    recent.push_back(expected[0]);
    auto steps = loaded.plan->sampled_steps(*drawn, recent, GetParam().sampling, GetParam().piece);
    ASSERT_TRUE(steps && *steps != nullptr);
    ASSERT_TRUE((*steps)->queue());
    for (std::size_t i = 1; i < kTokens; ++i) {
      if (i == 20) one_at_a_time(*other, 7);  // another session on the same buffers
      ASSERT_TRUE((*steps)->queue());
      const auto token = (*steps)->drawn();
      ASSERT_TRUE(token) << token.error().message;
      ASSERT_EQ(*token, expected[i]) << "token " << i;
    }
    std::vector<float> last(kVocab, NAN);
    ASSERT_TRUE((*steps)->logits(last));
    EXPECT_EQ(last, logits);
    EXPECT_EQ(*(*steps)->drawn(), expected.back());
    steps->reset();
    EXPECT_EQ(drawn->position(), plain->position());
    EXPECT_EQ(loaded.canonical(*drawn), loaded.canonical(*plain));
  }
}

TEST_P(SampledStepsTest, WithMasksGiveWhatTheHostDraws) {
  for (const char* program : {"ops", ""}) {
    const std::unique_ptr<Backend> backend = cuda_backend(program);
    ASSERT_NE(backend, nullptr);
    expect_masked_steps_to_draw_as_the_host(load_on(*backend, model_to_draw_from(), 16), GetParam(),
                                            40);
  }
}

TEST_P(SampledStepsTest, GoOnWhereOthersLeftOff) {
  const std::unique_ptr<Backend> device = cuda_backend();
  ASSERT_NE(device, nullptr);
  expect_steps_to_go_on(*device, GetParam(), kTokens);
}

TEST_P(SampledStepsTest, LeaveTheSessionOfAGenerationThatAskedForLogits) {
  const auto model = load_model(model_to_draw_from(), "cuda:0");
  Random random(53);
  const std::vector<TokenId> prompt = random.tokens(12, kVocab);
  GenerationOptions options{.sampling = GetParam().sampling, .max_tokens = 40, .ignore_end = true};
  const auto run = [&](Session& session) {
    EXPECT_TRUE(session.prefill(prompt));
    auto first = generate(session, options);  // and goes on from where it stands
    auto second = generate(session, options);
    EXPECT_TRUE(first && second);
    first->tokens.insert(first->tokens.end(), second->tokens.begin(), second->tokens.end());
    return first->tokens;
  };
  auto ahead = Session::create(model), slow = Session::create(model);
  const std::vector<TokenId> tokens = run(*ahead);
  options.on_logits = [](std::span<float>, std::span<const TokenId>) { return true; };
  EXPECT_EQ(run(*slow), tokens);
  EXPECT_EQ(*ahead->snapshot()->to_bytes(), *slow->snapshot()->to_bytes());
}

TEST_P(SampledStepsTest, GoOnWhileAnotherSessionGenerates) {
  const auto model = load_model(model_to_draw_from(), "cuda:0");
  Random random(54);
  const std::vector<TokenId> prompt = random.tokens(12, kVocab);
  const GenerationOptions options{
      .sampling = GetParam().sampling, .max_tokens = 12, .ignore_end = true};
  auto alone = Session::create(model), outer = Session::create(model);
  ASSERT_TRUE(alone->prefill(prompt) && outer->prefill(prompt));
  const std::vector<TokenId> expected = generate(*alone, options)->tokens;
  std::vector<TokenId> inner_tokens;
  auto inner = Session::create(model);
  ASSERT_TRUE(inner->prefill(prompt));
  std::jthread other([&] {
    for (int i = 0; i < 6; ++i) {
      const auto more =
          generate(*inner, {.sampling = GetParam().sampling, .max_tokens = 2, .ignore_end = true});
      if (more) inner_tokens.insert(inner_tokens.end(), more->tokens.begin(), more->tokens.end());
    }
  });
  EXPECT_EQ(generate(*outer, options)->tokens, expected);
  other.join();
  EXPECT_EQ(inner_tokens, expected);
}

/// Every part of the sampling kernel in few passes: for tools that watch each access.
TEST_P(SampledStepsTest, GiveTheFirstTokensInAGraph) {
  const std::unique_ptr<Backend> backend = cuda_backend();
  ASSERT_NE(backend, nullptr);
  const LoadedModel loaded = load_on(*backend, model_to_draw_from());
  auto plain = loaded.state(), drawn = loaded.state();
  std::vector<TokenId> all = {17};
  auto steps = loaded.plan->sampled_steps(*drawn, all, GetParam().sampling, GetParam().piece);
  ASSERT_TRUE(steps && *steps != nullptr);
  auto sampler = Sampler::create(GetParam().sampling, kVocab, GetParam().piece);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE((*steps)->queue());
    const std::vector<float> logits = loaded.run(*plain, std::span(all).last(1));
    const auto expected = sampler->sample(logits, all, plain->position());
    const auto token = (*steps)->drawn();
    ASSERT_TRUE(token && expected);
    EXPECT_EQ(*token, *expected);
    all.push_back(*token);
  }
}

TEST(SampledSteps, AnyChainDrawsTheTokensOfTheHost) {
  if (cuda::devices().empty()) GTEST_SKIP() << "NO CUDA DEVICE: nothing was checked";
  const std::unique_ptr<Backend> device = cuda_backend();
  ASSERT_NE(device, nullptr);
  expect_any_chain_to_draw_as_the_host(*device, 250);
}

TEST(SampledSteps, AnyChainWithMasksDrawsTheTokensOfTheHost) {
  if (cuda::devices().empty()) GTEST_SKIP() << "NO CUDA DEVICE: nothing was checked";
  const std::unique_ptr<Backend> device = cuda_backend();
  ASSERT_NE(device, nullptr);
  expect_any_masked_chain_to_draw_as_the_host(*device, 250);
}

TEST(SampledSteps, AMaskThatDoesNotComeEndsTheDraw) {
  if (cuda::devices().empty()) GTEST_SKIP() << "NO CUDA DEVICE: nothing was checked";
  const std::unique_ptr<Backend> device = cuda_backend();
  ASSERT_NE(device, nullptr);
  expect_missing_masks_to_end(load_on(*device, model_to_draw_from(), 16),
                              {"warm", {.temperature = 0.8F, .seed = 1}});
}

INSTANTIATE_TEST_SUITE_P(Cuda, SampledStepsTest, testing::ValuesIn(kinds()),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace runnel::test

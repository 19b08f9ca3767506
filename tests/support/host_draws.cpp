// SPDX-License-Identifier: Apache-2.0
#include "tests/support/host_draws.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ostream>
#include <thread>

#include "runtime/model/config.h"
#include "runtime/sampling/sampler.h"
#include "tests/support/random.h"

namespace runnel::test {

void PrintTo(const SamplingKind& kind, std::ostream* out) { *out << kind.name; }

RandomModel model_to_draw_from() {
  ModelConfig c = small_positional_config();
  c.vocab_size = kDrawnVocab;
  return make_random_model(c, {.tied = true, .gate_bias = true, .read_biases = true}, 51);
}

SamplingOptions random_chain(Random& random, std::int32_t vocab) {
  SamplingOptions o;
  o.seed = (std::uint64_t{random.below(0x7FFFFFFF)} << 32) | random.below(0x7FFFFFFF);
  o.temperature = one_of(random, {0.0F, 0.2F, 0.7F, 1.0F, 1.0F, 3.0F, 1e-39F});
  o.top_k = one_of(random, {0, 0, 1, 2, 5, 40, vocab - 1, vocab});
  o.top_p = one_of(random, {1.0F, 1.0F, 0.95F, 0.5F, 0.1F, 1e-7F});
  o.min_p = one_of(random, {0.0F, 0.0F, 0.02F, 0.3F, 0.999F});
  if (random.below(3) == 0) o.top_n_sigma = one_of(random, {1e-6F, 0.5F, 1.0F, 1.5F, 3.0F, 1e38F});
  if (random.below(2) == 0) {
    o.xtc_probability = one_of(random, {0.0F, 1e-9F, 0.5F, 1.0F});
    o.xtc_threshold = one_of(random, {0.0F, 0.01F, 0.1F, 0.3F, 0.5F, 0.51F, 1.0F});
  }
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
          one_of(random, {-INFINITY, 0.0F, 2.5F, -100.0F, 7.0F});
    }
  }
  return o;
}

TokenMask random_mask(Random& random, std::int32_t vocab) {
  TokenMask mask(static_cast<std::size_t>(vocab));
  const std::uint32_t share = one_of(random, {0U, 1U, 30U, 500U, 970U, 1000U});  // of 1,000
  for (std::int32_t token = 0; token < vocab; ++token) mask.set(token, random.below(1000) < share);
  mask.set(static_cast<TokenId>(random.below(static_cast<std::uint32_t>(vocab))));
  return mask;
}

std::string_view drawn_piece(TokenId token) { return token % 3 == 0 ? "ax" : "a"; }

std::vector<SamplingKind> kinds_with_dry() {
  // What was said once is not said again.
  SamplingOptions dry;
  dry.dry_multiplier = 100.0F;
  dry.dry_allowed_length = 1;
  dry.dry_breakers = {"x"};
  SamplingOptions few = dry;
  few.logit_bias = {{4, 400.0F}, {5, 400.0F}, {6, 380.0F}};  // 6 is a breaker
  SamplingOptions near = few;
  near.dry_range = 5;
  near.dry_base = 4.0F;
  SamplingOptions warm = few;
  warm.temperature = 0.9F;
  warm.top_k = 40;
  warm.seed = 8;
  warm.repetition_penalty = 1.3F;
  warm.penalty_window = 8;
  return {{"dry", dry, drawn_piece, true},
          {"dry_without_breakers", dry, {}, true},
          {"dry_few_tokens", few, drawn_piece, true},
          {"dry_short_range", near, {}, true},
          {"dry_warm_with_penalties", warm, drawn_piece, true}};
}

std::vector<TokenId> host_draws(const LoadedModel& loaded, RecurrentState& state,
                                std::vector<TokenId> tokens, std::vector<float>& logits,
                                const SamplingKind& kind, std::size_t count) {
  std::vector<TokenId> drawn;
  const std::int32_t vocab = loaded.source.config.vocab_size;
  SamplingOptions plain = kind.sampling;
  plain.dry_multiplier = 0.0F;
  auto sampler = Sampler::create(kind.sampling, vocab, kind.piece);
  auto without = Sampler::create(plain, vocab);
  EXPECT_TRUE(sampler && without);
  bool differs = !kind.differs;
  while (sampler && without) {
    const auto token = sampler->sample(logits, tokens, state.position());
    EXPECT_TRUE(token);
    if (!token) break;
    differs = differs || *without->sample(logits, tokens, state.position()) != *token;
    drawn.push_back(*token);
    if (drawn.size() == count) break;
    logits = loaded.run(state, std::span(&*token, 1));
    tokens.push_back(*token);
  }
  EXPECT_EQ(drawn.size(), count);
  EXPECT_TRUE(differs) << kind.name << ": not a case in which DRY matters";
  return drawn;
}

void expect_steps_to_go_on(Backend& device, const SamplingKind& kind, std::size_t count) {
  const LoadedModel loaded = load_on(device, model_to_draw_from(), 16);
  Random random(55);
  std::vector<TokenId> recent = random.tokens(12, kDrawnVocab);
  auto plain = loaded.state(), drawn = loaded.state();
  std::vector<float> logits;
  for (const TokenId token : recent) {
    logits = loaded.run(*plain, std::span(&token, 1));
    loaded.run(*drawn, std::span(&token, 1));
  }
  const std::vector<TokenId> expected = host_draws(loaded, *plain, recent, logits, kind, count + 1);
  ASSERT_EQ(expected.size(), count + 1);
  recent.push_back(expected[0]);
  std::unique_ptr<SampledSteps> steps;
  for (std::size_t i = 1; i <= count; ++i) {
    if (i % 5 == 1) {
      steps.reset();
      auto made = loaded.plan->sampled_steps(*drawn, recent, kind.sampling, kind.piece);
      ASSERT_TRUE(made && *made != nullptr);
      steps = std::move(*made);
    }
    ASSERT_TRUE(steps->queue());
    const auto token = steps->drawn();
    ASSERT_TRUE(token) << token.error().message;
    ASSERT_EQ(*token, expected[i]) << "token " << i;
    recent.push_back(*token);
  }
}

RandomModel model_with_head(const std::vector<float>& first_column) {
  RandomModel model = model_to_draw_from();
  auto weights = std::make_shared<Weights>(*model.weights);
  const auto d = static_cast<std::size_t>(model.config.hidden_size);
  auto head = std::make_shared<std::vector<float>>(first_column.size() * d, 0.0F);
  for (std::size_t i = 0; i < first_column.size(); ++i) (*head)[i * d] = first_column[i];
  weights->head = {.name = "head",
                   .type = quant::BlockType::f32,
                   .rows = static_cast<std::int64_t>(first_column.size()),
                   .cols = static_cast<std::int64_t>(d),
                   .data = std::as_bytes(std::span(*head))};
  model.storage =
      std::make_shared<std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>>(
          model.storage, head);
  model.weights = weights;
  return model;
}

namespace {

void expect_chain_to_draw_as_the_host(const LoadedModel& loaded, Random& random, bool masked) {
  const SamplingOptions o = random_chain(random, kDrawnVocab);
  auto plain = loaded.state(), drawn = loaded.state();
  const std::int32_t kinds = one_of(random, {2, 30, kDrawnVocab});
  std::vector<TokenId> all = random.tokens(1 + random.below(300), kinds);
  auto steps = loaded.plan->sampled_steps(*drawn, all, o, drawn_piece,
                                          masked ? kMaskTimeout : std::chrono::milliseconds{});
  ASSERT_TRUE(steps && *steps != nullptr);
  auto sampler = Sampler::create(o, kDrawnVocab, drawn_piece);
  ASSERT_TRUE(sampler);
  for (int step = 0; step < 3; ++step) {
    ASSERT_TRUE((*steps)->queue());
    const TokenMask mask = masked ? random_mask(random, kDrawnVocab) : TokenMask();
    if (masked) {
      if (random.below(4) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ASSERT_TRUE((*steps)->mask(mask));
    }
    const std::vector<float> logits = loaded.run(*plain, std::span(all).last(1));
    const auto expected = sampler->sample(logits, all, plain->position(), masked ? &mask : nullptr);
    const auto token = (*steps)->drawn();
    if (masked && !expected) {  // the model gives none of them a number
      EXPECT_EQ(token ? std::string("a token") : token.error().message, expected.error().message);
      return;
    }
    ASSERT_TRUE(token && expected);
    ASSERT_EQ(*token, *expected) << "step " << step << ": temperature " << o.temperature
                                 << ", top_k " << o.top_k << ", top_p " << o.top_p << ", min_p "
                                 << o.min_p << ", top_n_sigma " << o.top_n_sigma << ", XTC "
                                 << o.xtc_probability << " from " << o.xtc_threshold << ", window "
                                 << o.penalty_window << ", DRY " << o.dry_multiplier;
    all.push_back(*token);
  }
}

}  // namespace

namespace {

void expect_any(Backend& device, int chains, bool masked) {
  Random random(61);
  for (const float scale : {0.01F, 1.0F, 4.0F, 40.0F}) {
    std::vector<float> head = random.normals(kDrawnVocab, scale);
    for (float& v : head) {
      if (scale == 1.0F) v = std::round(v * 4.0F) / 4.0F;  // ties
      if (random.below(50) == 0) v = one_of(random, {NAN, -0.0F, 0.0F});
    }
    const LoadedModel loaded = load_on(device, model_with_head(head), 16);
    for (int i = 0; i < chains; ++i) {
      expect_chain_to_draw_as_the_host(loaded, random, masked);
      if (testing::Test::HasFatalFailure()) {
        ADD_FAILURE() << "logits of scale " << scale << ", chain " << i;
        return;
      }
    }
  }
}

}  // namespace

void expect_any_chain_to_draw_as_the_host(Backend& device, int chains) {
  expect_any(device, chains, false);
}
void expect_any_masked_chain_to_draw_as_the_host(Backend& device, int chains) {
  expect_any(device, chains, true);
}

void expect_masked_steps_to_draw_as_the_host(const LoadedModel& loaded, const SamplingKind& kind,
                                             std::size_t count) {
  Random random(57);
  std::vector<TokenId> all = random.tokens(12, kDrawnVocab);
  auto plain = loaded.state(), drawn = loaded.state(), other = loaded.state();
  const auto one = [&](RecurrentState& state, TokenId token) {
    return loaded.run(state, std::span(&token, 1));
  };
  std::vector<float> logits;
  for (const TokenId token : all) logits = one(*plain, token), one(*drawn, token);
  auto sampler = Sampler::create(kind.sampling, kDrawnVocab, kind.piece);
  ASSERT_TRUE(sampler);
  std::vector<TokenMask> masks;
  std::vector<TokenId> expected;
  std::vector<TokenId> recent = all;
  for (std::size_t i = 0; i <= count; ++i) {
    masks.push_back(random_mask(random, kDrawnVocab));
    const auto token = sampler->sample(logits, recent, plain->position(), &masks.back());
    ASSERT_TRUE(token) << token.error().message;
    expected.push_back(*token);
    recent.push_back(*token);
    if (i < count) logits = one(*plain, *token);
  }
  all.push_back(expected[0]);
  auto steps = loaded.plan->sampled_steps(*drawn, all, kind.sampling, kind.piece, kMaskTimeout);
  ASSERT_TRUE(steps && *steps != nullptr);
  ASSERT_TRUE((*steps)->queue());
  ASSERT_TRUE((*steps)->mask(masks[1]));
  for (std::size_t i = 1; i < count; ++i) {
    ASSERT_TRUE((*steps)->queue());  // its mask is known with the token that it consumes
    std::jthread user;
    if (i % 5 == 2) user = std::jthread([&] { one(*other, 7); });
    const auto token = (*steps)->drawn();
    ASSERT_TRUE(token) << token.error().message;
    ASSERT_EQ(*token, expected[i]) << "token " << i;
    if (i % 5 == 2) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ASSERT_TRUE((*steps)->mask(masks[i + 1]));
  }
  std::vector<float> last(kDrawnVocab, NAN);
  ASSERT_TRUE((*steps)->logits(last));
  EXPECT_EQ(last, logits);
  EXPECT_EQ(*(*steps)->drawn(), expected.back());
  steps->reset();
  EXPECT_EQ(drawn->position(), plain->position());
  EXPECT_EQ(loaded.canonical(*drawn), loaded.canonical(*plain));
}

void expect_missing_masks_to_end(const LoadedModel& loaded, const SamplingKind& kind) {
  const std::vector<TokenId> recent = {17};
  const auto begin = [&](RecurrentState& state, std::chrono::milliseconds timeout) {
    auto steps = loaded.plan->sampled_steps(state, recent, kind.sampling, kind.piece, timeout);
    EXPECT_TRUE(steps && *steps != nullptr && (*steps)->queue());
    return std::move(*steps);
  };
  auto plain = loaded.state();
  const std::vector<float> expected = loaded.run(*plain, recent);
  {
    auto state = loaded.state();
    const auto steps = begin(*state, std::chrono::milliseconds(100));
    const auto token = steps->drawn();
    ASSERT_FALSE(token);
    EXPECT_EQ(token.error().code, ErrorCode::internal);
    EXPECT_EQ(token.error().message, "steps: the mask of a token did not come within 100 ms");
    EXPECT_EQ(steps->mask(TokenMask(kDrawnVocab)).error().code, ErrorCode::internal);
  }
  {
    auto state = loaded.state();
    const auto steps = begin(*state, kMaskTimeout);
    std::vector<float> logits(kDrawnVocab, NAN);
    ASSERT_TRUE(steps->logits(logits));
    EXPECT_EQ(logits, expected);
    EXPECT_EQ(loaded.canonical(*state), loaded.canonical(*plain));
  }
  {
    auto state = loaded.state();
    begin(*state, kMaskTimeout);  // and leaves
    EXPECT_EQ(loaded.canonical(*state), loaded.canonical(*plain));
  }
  auto after = loaded.state();
  EXPECT_EQ(loaded.run(*after, recent), expected);
}

}  // namespace runnel::test

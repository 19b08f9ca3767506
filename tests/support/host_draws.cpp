// SPDX-License-Identifier: Apache-2.0
#include "tests/support/host_draws.h"

#include <gtest/gtest.h>

#include <ostream>

#include "runtime/model/config.h"
#include "runtime/sampling/sampler.h"

namespace runnel::test {

void PrintTo(const SamplingKind& kind, std::ostream* out) { *out << kind.name; }

RandomModel model_to_draw_from() {
  ModelConfig c = small_positional_config();
  c.vocab_size = kDrawnVocab;
  return make_random_model(c, {.tied = true, .gate_bias = true, .read_biases = true}, 51);
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

}  // namespace runnel::test

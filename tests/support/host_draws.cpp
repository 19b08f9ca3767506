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

std::vector<TokenId> host_draws(const LoadedModel& loaded, RecurrentState& state,
                                std::vector<TokenId> tokens, std::vector<float>& logits,
                                const SamplingOptions& sampling, std::size_t count) {
  std::vector<TokenId> drawn;
  auto sampler = Sampler::create(sampling, loaded.source.config.vocab_size);
  EXPECT_TRUE(sampler);
  while (sampler) {
    const auto token = sampler->sample(logits, tokens, state.position());
    EXPECT_TRUE(token);
    if (!token) break;
    drawn.push_back(*token);
    if (drawn.size() == count) break;
    logits = loaded.run(state, std::span(&*token, 1));
    tokens.push_back(*token);
  }
  EXPECT_EQ(drawn.size(), count);
  return drawn;
}

}  // namespace runnel::test

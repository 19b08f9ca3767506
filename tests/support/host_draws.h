// SPDX-License-Identifier: Apache-2.0
// What tests of tokens drawn on a device compare with: the host's sampler, one token at a time.
#pragma once

#include <iosfwd>
#include <span>
#include <vector>

#include "runnel/generation.h"
#include "tests/support/random_model.h"

namespace runnel::test {

/// A named way to draw, for parametrised tests.
struct SamplingKind {
  const char* name;
  SamplingOptions sampling;
};
void PrintTo(const SamplingKind& kind, std::ostream* out);

constexpr std::int32_t kDrawnVocab = 3001;
/// A small positional model with that vocabulary, a tied head and every bias.
RandomModel model_to_draw_from();

/// The `count` tokens that follow `tokens`, which `state` has taken in and `logits` is of; all of
/// them but the last are fed, and `logits` is then of the last one fed. Fails the test on error.
std::vector<TokenId> host_draws(const LoadedModel& loaded, RecurrentState& state,
                                std::vector<TokenId> tokens, std::vector<float>& logits,
                                const SamplingOptions& sampling, std::size_t count);

}  // namespace runnel::test

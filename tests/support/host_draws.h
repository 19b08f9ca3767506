// SPDX-License-Identifier: Apache-2.0
// What tests of tokens drawn on a device compare with: the host's sampler, one token at a time.
#pragma once

#include <initializer_list>
#include <iosfwd>
#include <span>
#include <string_view>
#include <vector>

#include "runnel/generation.h"
#include "runtime/sampling/dry.h"
#include "runtime/sampling/token_mask.h"
#include "tests/support/random.h"
#include "tests/support/random_model.h"

namespace runnel::test {

/// A named way to draw, for parametrised tests.
struct SamplingKind {
  const char* name;
  SamplingOptions sampling;
  PieceOf piece = {};
  bool differs = false;  // from the same without DRY; fails the test if not
};
/// Ways to draw with DRY: greedy ones and others, with breakers, a short range, penalties, and biases that leave few
/// tokens, so that DRY makes a difference on any model; those without biases make one on model_to_draw_from().
std::vector<SamplingKind> kinds_with_dry();
template <class T>
T one_of(Random& random, std::initializer_list<T> values) {
  return values.begin()[random.below(static_cast<std::uint32_t>(values.size()))];
}
/// Options of the usual chain, each of its samplers on or off, at the edges of their ranges or within.
SamplingOptions random_chain(Random& random, std::int32_t vocab);

/// One token, few, most or all of them.
TokenMask random_mask(Random& random, std::int32_t vocab);

/// Every third token has an "x".
std::string_view drawn_piece(TokenId token);
void PrintTo(const SamplingKind& kind, std::ostream* out);

constexpr std::int32_t kDrawnVocab = 3001;
/// A small positional model with that vocabulary, a tied head and every bias.
RandomModel model_to_draw_from();

/// A model whose logits are, up to a positive factor, `first_column` [kDrawnVocab].
RandomModel model_with_head(const std::vector<float>& first_column);

/// Draws on `device` by `chains` random chains for each of several models with flat, tied and peaked logits, some of them
/// not numbers; expects the host's tokens from the same logits.
void expect_any_chain_to_draw_as_the_host(Backend& device, int chains);

/// The same with a random mask for each draw, from one token to all, given before it begins or a while later.
void expect_any_masked_chain_to_draw_as_the_host(Backend& device, int chains);

/// Draws `count` of kDrawnVocab tokens by steps with such masks, each pass queued before its token is known, while another session uses
/// the same buffers, which waits for the masks; expects the host's tokens, logits and state.
void expect_masked_steps_to_draw_as_the_host(const LoadedModel& loaded, const SamplingKind& kind,
                                             std::size_t count);

/// Expects that a draw whose mask does not come ends, with the error that says so, and leaves the plan of use; and that
/// steps can be left or asked for their logits while a draw waits.
void expect_missing_masks_to_end(const LoadedModel& loaded, const SamplingKind& kind);

/// The `count` tokens that follow `tokens`, which `state` has taken in and `logits` is of; all of
/// them but the last are fed, and `logits` is then of the last one fed. Fails the test on error.
std::vector<TokenId> host_draws(const LoadedModel& loaded, RecurrentState& state,
                                std::vector<TokenId> tokens, std::vector<float>& logits,
                                const SamplingKind& kind, std::size_t count);

/// Draws `count` tokens of model_to_draw_from() on `device` by steps that end after every fifth, so that the next begin
/// with what others drew; expects the host's tokens.
void expect_steps_to_go_on(Backend& device, const SamplingKind& kind, std::size_t count);

}  // namespace runnel::test

// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/vulkan/chain_words.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "runtime/base/integers.h"
#include "runtime/sampling/device_draws.h"
#include "runtime/sampling/exact_cuts.h"
#include "runtime/sampling/philox.h"
#include "runtime/sampling/token_weights.h"
#include "shaders/include/contract/interface.h"

namespace runnel::vulkan {
namespace {

static_assert(kMostBiases == kMostDrawnBiases);
static_assert(kMostLookedBack == SamplingOptions::kMaxPenaltyWindow);

std::uint32_t word(float value) { return std::bit_cast<std::uint32_t>(value); }

/// A ring of the last `size` tokens of `recent`, at a place of the words of the past; how many it holds.
std::uint32_t put_ring(std::span<std::uint32_t> past, std::uint32_t at,
                       std::span<const TokenId> recent, std::int32_t size) {
  recent = recent.last(std::min(recent.size(), static_cast<std::size_t>(size)));
  std::copy(recent.begin(), recent.end(), past.begin() + at);
  return static_cast<std::uint32_t>(recent.size());
}

void put_cuts(std::span<std::uint32_t> words, const SamplingOptions& o, std::int32_t vocab) {
  // As in Sampler.
  words[kDrawHeat] = word(o.temperature > 0.0F ? std::min(1.0F / o.temperature, 1e38F) : 0.0F);
  words[kDrawTopK] = o.top_k < vocab ? static_cast<std::uint32_t>(o.top_k) : 0;
  words[kDrawTopP] = o.top_p < 1.0F ? share_units(o.top_p) : 0;
  words[kDrawMinWeight] =
      std::max(1U, static_cast<std::uint32_t>(std::ceil(o.min_p * double{kWeightOne})));
  words[kDrawTopNSigma] = word(std::max(o.top_n_sigma, 0.0F));
  words[kDrawXtc] = share_units(o.xtc_threshold);
}

}  // namespace

std::size_t chain_words(std::int32_t vocab) {
  const std::size_t bits = divide_up(static_cast<std::size_t>(vocab), TokenMask::kWordBits);
  return kDrawBreakersAt + (1 + kMostTurns) * bits;
}

void put_chain(std::span<std::uint32_t> words, const SamplingOptions& options, std::int32_t vocab,
               std::span<const TokenId> recent, PieceOf piece, bool known_breakers) {
  std::fill_n(words.begin(), kDrawBiasesAt, 0U);
  put_cuts(words, options, vocab);
  auto bias = words.begin() + kDrawBiasesAt;
  for (const auto& [token, added] : options.logit_bias) {
    *bias++ = static_cast<std::uint32_t>(token);
    *bias++ = word(added);
  }
  words[kDrawBiases] = static_cast<std::uint32_t>(options.logit_bias.size());

  const std::span<std::uint32_t> past = words.subspan(kDrawPastAt, kPastBiased);
  std::fill(past.begin(), past.end(), 0U);
  const bool penalties = options.repetition_penalty != 1.0F || options.presence_penalty != 0.0F ||
                         options.frequency_penalty != 0.0F;
  if (penalties) {
    words[kDrawWindow] = static_cast<std::uint32_t>(options.penalty_window);
    words[kDrawPenalty] = word(options.repetition_penalty);
    words[kDrawUnpenalty] = word(inverse_penalty(options.repetition_penalty));
    words[kDrawPresence] = word(options.presence_penalty);
    words[kDrawFrequency] = word(options.frequency_penalty);
    past[kPastRecentAt] = put_ring(past, kPastRecent, recent, options.penalty_window);
  }
  Dry dry(options, vocab, std::move(piece));
  if (!dry.on()) return;
  words[kDrawDryRange] = static_cast<std::uint32_t>(options.dry_range);
  words[kDrawDryAllowed] = static_cast<std::uint32_t>(options.dry_allowed_length);
  past[kPastDryAt] = put_ring(past, kPastDry, recent, options.dry_range);
  std::ranges::copy(dry.lengths(recent), past.begin() + kPastLengths);
  std::ranges::transform(dry.losses_by_length(), words.begin() + kDrawLossesAt, word);
  if (!known_breakers) std::ranges::copy(dry.breaker_bits(), words.begin() + kDrawBreakersAt);
}

void put_turn(std::span<std::uint32_t> words, const SamplingOptions& options, const Turn& turn) {
  const auto random = sampling_words(options.seed, turn.position);
  const auto to = words.subspan(kDrawHeader + std::size_t{turn.place} * kTurnWords, kTurnWords);
  to[kTurnWord] = random[0];
  to[kTurnXtc] =
      options.xtc_probability > 0.0F && happens(options.xtc_probability, random[1]) ? 1 : 0;
  to[kTurnBegins] = turn.begins ? 1 : 0;
  to[kTurnMasked] = turn.masked ? 1 : 0;
}

void put_mask(std::span<std::uint32_t> words, std::uint32_t place, const TokenMask& mask) {
  const std::span<const std::uint32_t> bits = mask.words();
  std::ranges::copy(bits, words.begin() + kDrawBreakersAt +
                              static_cast<std::ptrdiff_t>((1 + place) * bits.size()));
}

}  // namespace runnel::vulkan

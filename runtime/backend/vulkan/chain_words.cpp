// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/vulkan/chain_words.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "runtime/sampling/device_draws.h"
#include "runtime/sampling/exact_cuts.h"
#include "runtime/sampling/philox.h"
#include "runtime/sampling/token_weights.h"

namespace runnel::vulkan {
namespace {

static_assert(kMostChanges >= kMostDrawnBiases + 2 * SamplingOptions::kMaxPenaltyWindow);

constexpr std::size_t kFirstChange = kDrawHeader + kMostTurns * kTurnWords;

std::uint32_t word(float value) { return std::bit_cast<std::uint32_t>(value); }

}  // namespace

ChainWords::ChainWords(const SamplingOptions& options, std::int32_t vocab, PieceOf piece)
    : options_(options),
      vocab_(vocab),
      dry_(options, vocab, std::move(piece)),
      place_of_(static_cast<std::size_t>(vocab)) {
  const bool penalties = options.repetition_penalty != 1.0F || options.presence_penalty != 0.0F ||
                         options.frequency_penalty != 0.0F;
  if (penalties) window_ = static_cast<std::size_t>(options.penalty_window);
}

void ChainWords::put_options(std::span<std::uint32_t, kWords> words) {
  const SamplingOptions& o = options_;
  std::fill_n(words.begin(), kFirstChange, 0U);
  // As in Sampler.
  words[kDrawHeat] =
      word(o.temperature > 0.0F ? std::min(1.0F / o.temperature, 1e38F) : 0.0F);
  words[kDrawTopK] = o.top_k < vocab_ ? static_cast<std::uint32_t>(o.top_k) : 0;
  words[kDrawTopP] = o.top_p < 1.0F ? share_units(o.top_p) : 0;
  words[kDrawMinWeight] =
      std::max(1U, static_cast<std::uint32_t>(std::ceil(o.min_p * double{kWeightOne})));
  words[kDrawTopNSigma] = word(std::max(o.top_n_sigma, 0.0F));
  words[kDrawXtc] = share_units(o.xtc_threshold);
  words[kDrawPenalty] = word(o.repetition_penalty);
  words[kDrawUnpenalty] = word(inverse_penalty(o.repetition_penalty));
  if (!looks_back()) put_changes(words, {});
}

void ChainWords::put_turn(std::span<std::uint32_t, kWords> words, std::uint32_t place,
                          std::uint64_t position, std::span<const TokenId> recent) {
  if (looks_back()) put_changes(words, recent);
  const auto random = sampling_words(options_.seed, position);
  const auto turn = words.subspan(kDrawHeader + place * kTurnWords, kTurnWords);
  turn[kTurnWord] = random[0];
  turn[kTurnXtc] =
      options_.xtc_probability > 0.0F && happens(options_.xtc_probability, random[1]) ? 1 : 0;
  turn[kTurnChanges] = static_cast<std::uint32_t>(changes_.size());
}

ChainWords::Change& ChainWords::change_of(TokenId token) {
  std::uint32_t& place = place_of_[static_cast<std::size_t>(token)];
  if (place == 0) {
    changes_.push_back({.token = token});
    place = static_cast<std::uint32_t>(changes_.size());
  }
  return changes_[place - 1];
}

void ChainWords::put_changes(std::span<std::uint32_t, kWords> words,
                             std::span<const TokenId> recent) {
  changes_.clear();
  for (const auto& [token, bias] : options_.logit_bias) change_of(token).bias = bias;
  for (const TokenId token : recent.last(std::min(window_, recent.size())))
    ++change_of(token).count;
  for (const Dry::Loss& loss : dry_.losses(recent)) change_of(loss.token).loss = loss.loss;
  auto to = words.begin() + kFirstChange;
  for (const Change& c : changes_) {
    const float penalty =
        options_.presence_penalty + static_cast<float>(c.count) * options_.frequency_penalty;
    to[kChangeToken] = static_cast<std::uint32_t>(c.token);
    to[kChangeBias] = word(c.bias);
    to[kChangeRepeated] = c.count > 0 ? 1 : 0;
    to[kChangePenalty] = word(penalty);
    to[kChangeLoss] = word(c.loss);
    to += kChangeWords;
    place_of_[static_cast<std::size_t>(c.token)] = 0;
  }
}

}  // namespace runnel::vulkan

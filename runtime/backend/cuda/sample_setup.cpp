// SPDX-License-Identifier: Apache-2.0
#include "runtime/backend/cuda/sample_setup.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/sampling/device_draws.h"
#include "runtime/sampling/exact_cuts.h"
#include "runtime/sampling/token_weights.h"

namespace runnel::cuda {

namespace {

void add_dry(const SamplingOptions& options, std::span<const TokenId> recent, BreakerTexts texts,
             SampleSetup& setup) {
  Sample& s = setup.sample;
  Dry dry(options, s.vocab, std::move(texts.piece));
  if (!dry.on()) return;
  static_assert(SamplingOptions::kMaxPenaltyWindow == kSampleDistances);
  s.dry_range = options.dry_range;
  s.dry_allowed = static_cast<std::uint32_t>(options.dry_allowed_length);
  const std::span<const std::uint16_t> lengths = dry.lengths(recent);
  setup.dry_lengths.assign(lengths.begin(), lengths.end());
  setup.dry_losses.assign(dry.losses_by_length().begin(), dry.losses_by_length().end());
  const auto range = static_cast<std::size_t>(s.dry_range);
  recent = recent.last(std::min(recent.size(), range));
  setup.dry_recent.assign(recent.begin(), recent.end());
  setup.dry_recent.resize(range);
  setup.dry_recent_at = static_cast<std::int32_t>(recent.size());
  if (!texts.known) setup.breakers = dry.breaker_bits();
}

}  // namespace

SampleSetup make_sample_setup(const SamplingOptions& options, std::int32_t vocab,
                              std::span<const TokenId> recent, BreakerTexts texts) {
  SampleSetup setup;
  Sample& s = setup.sample;
  s.vocab = vocab;
  // As in Sampler.
  s.inverse_temperature =
      options.temperature > 0.0F ? std::min(1.0F / options.temperature, 1e38F) : 0.0F;
  s.top_k = options.top_k < vocab ? options.top_k : 0;
  s.top_p_units = options.top_p < 1.0F ? share_units(options.top_p) : 0;
  s.min_weight =
      std::max(1U, static_cast<std::uint32_t>(std::ceil(options.min_p * double{kWeightOne})));
  s.top_n_sigma = std::max(options.top_n_sigma, 0.0F);
  s.xtc_probability = options.xtc_probability;
  s.xtc_units = share_units(options.xtc_threshold);
  s.seed = options.seed;
  for (const auto& [token, bias] : options.logit_bias) {
    setup.bias_ids.push_back(token);
    setup.bias_values.push_back(bias);
  }
  s.biases = static_cast<std::int32_t>(setup.bias_ids.size());
  add_dry(options, recent, std::move(texts), setup);
  s.repetition_penalty = options.repetition_penalty;
  s.inverse_penalty = inverse_penalty(options.repetition_penalty);
  s.presence_penalty = options.presence_penalty;
  s.frequency_penalty = options.frequency_penalty;
  if (!has_penalties(options)) return setup;
  s.window = options.penalty_window;
  const auto window = static_cast<std::size_t>(s.window);
  recent = recent.last(std::min(recent.size(), window));
  setup.recent.assign(recent.begin(), recent.end());
  setup.recent.resize(window);
  setup.recent_at = static_cast<std::int32_t>(recent.size());
  setup.counts.resize(static_cast<std::size_t>(vocab));
  for (const TokenId token : recent) ++setup.counts[static_cast<std::size_t>(token)];
  return setup;
}

}  // namespace runnel::cuda

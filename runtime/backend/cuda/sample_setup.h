// SPDX-License-Identifier: Apache-2.0
// Sampling options as the sampling kernel takes them.
#pragma once

#include <span>
#include <vector>

#include "cuda/sample.h"
#include "runnel/sampling.h"
#include "runtime/sampling/dry.h"

namespace runnel::cuda {

/// A Sample without addresses, and what its arrays hold at the beginning.
struct SampleSetup {
  Sample sample;
  std::vector<std::int32_t> bias_ids;
  std::vector<float> bias_values;
  std::vector<std::int32_t> recent;  // [window]
  std::int32_t recent_at = 0;
  std::vector<std::int32_t> counts;  // [vocab] with a window
  // with DRY
  std::vector<std::int32_t> dry_recent;  // [dry_range]
  std::int32_t dry_recent_at = 0;
  std::vector<std::uint32_t> dry_lengths;  // [dry_range]
  std::vector<float> dry_losses;           // [dry_range]
  std::vector<std::uint32_t> breakers;     // a bit for each token; empty if they are known
};

/// Where DRY's breakers come from.
struct BreakerTexts {
  PieceOf piece;       // empty: there are none
  bool known = false;  // the device has those of these options
};

/// @param options  valid, with ids of biases in [0, vocab)
/// @param recent   tokens consumed when the first token is drawn, oldest first
SampleSetup make_sample_setup(const SamplingOptions& options, std::int32_t vocab,
                              std::span<const TokenId> recent, BreakerTexts texts = {});

}  // namespace runnel::cuda

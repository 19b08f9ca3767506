// SPDX-License-Identifier: Apache-2.0
// Sampling options as the sampling kernel takes them.
#pragma once

#include <span>
#include <vector>

#include "cuda/sample.h"
#include "runnel/sampling.h"

namespace runnel::cuda {

/// A Sample without addresses, and what its arrays hold at the beginning.
struct SampleSetup {
  Sample sample;
  std::vector<std::int32_t> bias_ids;
  std::vector<float> bias_values;
  std::vector<std::int32_t> recent;  // [window]
  std::int32_t recent_at = 0;
  std::vector<std::int32_t> counts;  // [vocab] with a window
};

/// @param options  valid, with ids of biases in [0, vocab)
/// @param recent   tokens consumed when the first token is drawn, oldest first
SampleSetup make_sample_setup(const SamplingOptions& options, std::int32_t vocab,
                              std::span<const TokenId> recent);

}  // namespace runnel::cuda

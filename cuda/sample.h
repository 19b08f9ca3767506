// SPDX-License-Identifier: Apache-2.0
// Drawing the next token on the device, so that a step of generation waits for no host: the
// arithmetic of runtime/sampling/sampler.h, to the bit.
#pragma once

#include "cuda/launch.h"

namespace runnel::cuda {

/// What a draw leaves for the next step and for the host. Pointers are the device's.
struct NextStep {
  std::int32_t* token = nullptr;
  Segment* segment = nullptr;      // moves on by the token just consumed
  std::uint64_t* drawn = nullptr;  // in pinned host memory: ticket << 32 | token
  std::uint32_t ticket = 0;
};

/// What is drawn from, how, and where the token goes. Pointers are the device's.
struct Sample {
  float* logits = nullptr;  // [vocab] the same afterwards; with DRY alone some change in between
  std::int32_t vocab = 0;
  float inverse_temperature = 0.0F;  // 0: greedy
  std::int32_t top_k = 0;            // 0: all
  std::uint32_t top_p_units = 0;     // as exact_cuts.h has shares; 0: all
  std::uint32_t min_weight = 1;      // min-p as a weight, see token_weights.h
  float top_n_sigma = 0.0F;          // 0: off
  float xtc_probability = 0.0F;      // 0: off
  std::uint32_t xtc_units = 0;       // its threshold, as exact_cuts.h has shares
  std::uint64_t seed = 0;

  const std::int32_t* bias_ids = nullptr;  // [biases], each once
  const float* bias_values = nullptr;
  std::int32_t biases = 0;

  float repetition_penalty = 1.0F, presence_penalty = 0.0F, frequency_penalty = 0.0F;
  float inverse_penalty = 1.0F;       // of the first
  std::int32_t window = 0;            // tokens that penalties see; 0: none
  std::int32_t* recent = nullptr;     // [window], a ring: what was consumed last
  std::int32_t* recent_at = nullptr;  // tokens ever put into the ring
  std::int32_t* counts = nullptr;     // [vocab] occurrences in the ring

  // DRY: runtime/sampling/dry.h says what lengths, losses and breakers are.
  std::int32_t dry_range = 0;                   // tokens that it sees; 0: off
  std::uint32_t dry_allowed = 1;                // repetitions shorter than this cost nothing
  const float* dry_losses = nullptr;            // [dry_range] by length
  const std::uint32_t* dry_breakers = nullptr;  // a bit for each token
  std::int32_t* dry_recent = nullptr;           // [dry_range], a ring: what was generated last
  std::int32_t* dry_recent_at = nullptr;        // tokens ever put into the ring
  std::uint32_t* dry_lengths = nullptr;         // [dry_range] by distance
  std::uint32_t* dry_longest = nullptr;         // [vocab] scratch, zero between launches
  float* dry_kept = nullptr;                    // [dry_range] scratch

  float* adjusted = nullptr;         // [vocab] scratch, with biases or a window
  std::uint32_t* weights = nullptr;  // [vocab] scratch, unless greedy

  NextStep next;
};

/// Token of `drawn` where none can be chosen: every logit is -inf or not a number. The next step is
/// given token 0 then.
inline constexpr std::uint32_t kNoToken = 0xFFFFFFFFU;

inline constexpr int kSampleThreads = 1024;  // one block

cudaError_t sample(cudaStream_t stream, const Sample& s);
/// Loads its code, which else happens at the first launch and then waits for all that runs on the device: for a kernel that
/// waits for the host, too.
cudaError_t load_sampler();

}  // namespace runnel::cuda

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

/// Tokens that DRY sees at most.
inline constexpr int kSampleDistances = 1024;

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
  std::int32_t dry_range = 0;         // tokens that it sees, up to kSampleDistances; 0: off
  std::uint32_t dry_allowed = 1;      // repetitions shorter than this cost nothing
  const float* dry_losses = nullptr;  // [dry_range] by length
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

/// Whether min-p alone says of each logit what is too far from the largest one to be drawn.
constexpr bool lists_by_min_p(const Sample& s) { return s.min_weight > 1 && s.top_p_units == 0; }

/// What blocks of the head keep of their rows (step_grid.h), so that few logits have to be read again.
struct BlockChoices {
  const std::uint64_t* best =
      nullptr;              // [blocks] the largest logit of each with its token: choice_of()
  std::int32_t blocks = 0;  // at most kMostChoices
  std::int32_t units = 0;   // of rows, which blocks share
  std::int32_t unit_rows = 1;

  // Rows of a block, of a vocabulary of `vocab`; the block of a token.
  constexpr std::int32_t begin(std::int32_t block) const {
    return first_unit(units, block, blocks) * unit_rows;
  }
  constexpr std::int32_t end(std::int32_t block, std::int32_t vocab) const {
    const std::int32_t last = begin(block + 1);
    return last < vocab ? last : vocab;
  }
  constexpr std::int32_t block_of(std::int32_t token) const {
    return static_cast<std::int32_t>((std::int64_t{token / unit_rows + 1} * blocks - 1) / units);
  }
  constexpr std::int32_t most_rows() const { return (units + blocks - 1) / blocks * unit_rows; }
};
inline constexpr int kMostChoices = 256;

/// Whether a token can be drawn from BlockChoices: the largest logit, or among those that min-p leaves; with or without
/// DRY.
constexpr bool draws_by_blocks(const Sample& s) {
  const bool one_by_one = s.biases == 0 && s.window == 0;
  const bool by_min_p =
      lists_by_min_p(s) && s.top_k == 0 && !(s.top_n_sigma > 0.0F) && !(s.xtc_probability > 0.0F);
  return one_by_one && (s.inverse_temperature == 0.0F || by_min_p);
}
/// Whether the token is the one of the largest logit as it is, which the decode kernels of fixed shapes draw themselves.
constexpr bool draws_largest(const Sample& s) {
  return s.biases == 0 && s.window == 0 && s.dry_range == 0 && s.inverse_temperature == 0.0F;
}

/// Token of `drawn` where none can be chosen: every logit is -inf or not a number. The next step is
/// given token 0 then.
inline constexpr std::uint32_t kNoToken = 0xFFFFFFFFU;

inline constexpr int kSampleThreads = 1024;  // one block

cudaError_t sample(cudaStream_t stream, const Sample& s);

inline constexpr int kSampleBlocksThreads = 512;  // one block
/// The same, if draws_by_blocks(s), from what the kernel before it kept of these logits; compute capability 9.0.
cudaError_t sample_blocks(cudaStream_t stream, const Sample& s, const BlockChoices& from);
/// Loads its code, which else happens at the first launch and then waits for all that runs on the device: for a kernel that
/// waits for the host, too.
cudaError_t load_sampler();

}  // namespace runnel::cuda

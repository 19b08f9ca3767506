// SPDX-License-Identifier: Apache-2.0
// Which tokens may be drawn: a mask that the host writes while the device computes the logits, and for which the draw
// waits.
#pragma once

#include "cuda/launch.h"

namespace runnel::cuda {

/// Logits <- those of tokens that may come, -inf for the others. Pointers are the device's, or of pinned host memory.
struct Mask {
  const float* logits = nullptr;  // [vocab]
  float* masked = nullptr;        // [vocab]
  std::int32_t vocab = 0;
  const std::uint32_t* words = nullptr;    // pinned: a bit for each token, from when on
  const std::uint32_t* written = nullptr;  // pinned: this is the ticket
  std::uint32_t ticket = 0;
  std::uint64_t timeout = 0;      // nanoseconds; nothing may come of a mask that is later
  std::uint64_t* late = nullptr;  // pinned: the ticket then
};

inline constexpr int kMaskThreads = 256;  // of a block

/// Blocks for a vocabulary of this size: each warp takes 32 words of the mask.
constexpr int mask_blocks(std::int32_t vocab) {
  constexpr int kTokens = 32 * kMaskThreads;
  return (vocab + kTokens - 1) / kTokens;
}

cudaError_t mask_logits(cudaStream_t stream, const Mask& m);

}  // namespace runnel::cuda
